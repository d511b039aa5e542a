// SPDX-License-Identifier: Apache-2.0
// Passes reports to the program's sink, also when the host has no memory for their text.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "berth/report.hpp"

namespace berth {

/// Threads  Safe from any thread.
class Reporter {
 public:
  explicit Reporter(ReportSink sink) : sink_(std::move(sink)) {}

  /// Reports the message that `make` returns. If that throws, which is a lack of memory, the sink
  /// is told that a message was lost. Exceptions of the sink are ignored.
  template <std::invocable Make>
  void report(Severity severity, const Make& make) const noexcept {
    if (!sink_) return;
    std::optional<Report> made;
    try {
      made.emplace(Report{severity, make()});
    } catch (...) {  // NOLINT(bugprone-empty-catch): lost_ follows
    }
    try {
      sink_(made ? *made : lost_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): its own failure has nowhere to go
    }
  }

 private:
  const ReportSink sink_;
  const Report lost_{Severity::error, "a message is lost, because the host has no memory for it"};
};

}  // namespace berth
