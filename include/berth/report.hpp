// SPDX-License-Identifier: Apache-2.0
// The report sink. The library never prints, and a destructor never throws. The sink receives the
// problems that would otherwise be lost: a failed cuMemFree in a destructor, a malformed entry in
// CUDA_VISIBLE_DEVICES.
#pragma once

#include <functional>
#include <string>

#include "berth/cpp20.hpp"

namespace berth {

/// The severity of a report.
enum class Severity { warning, error };

/// One problem.
struct Report {
  Severity severity;
  std::string message;  ///< one line, without a trailing newline
};

/// Called on the thread that detected the problem, possibly under a lock of berth. So it must not
/// call berth, nor wait for a thread that does. May be empty: reports are then dropped. Exceptions
/// that it throws are ignored. If the host has no memory for a message, the sink gets an error that
/// states this.
using ReportSink = std::function<void(const Report&)>;

}  // namespace berth
