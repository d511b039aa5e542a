// SPDX-License-Identifier: Apache-2.0
// A report sink that stores its reports.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "berth/report.hpp"

namespace berth::test {

/// Must outlive all users of its sink(). Safe from any thread.
class Reports {
 public:
  [[nodiscard]] ReportSink sink() {
    return [this](const Report& report) {
      const std::lock_guard lock(mutex_);
      reports_.push_back(report);
    };
  }

  [[nodiscard]] std::vector<Report> all() const {
    const std::lock_guard lock(mutex_);
    return reports_;
  }
  [[nodiscard]] std::size_t count(Severity severity) const {
    const std::vector<Report> reports = all();
    return std::size_t(std::ranges::count(reports, severity, &Report::severity));
  }
  [[nodiscard]] bool mention(std::string_view part) const {
    return std::ranges::any_of(all(), [part](const Report& report) {
      return report.message.find(part) != std::string::npos;
    });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Report> reports_;
};

}  // namespace berth::test
