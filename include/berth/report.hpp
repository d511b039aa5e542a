// SPDX-License-Identifier: Apache-2.0
// The report sink: the library never prints, and a destructor never throws. What would be lost in
// between (a failed cuMemFree in a destructor, a malformed entry in CUDA_VISIBLE_DEVICES) goes
// here.
#pragma once

#include <functional>
#include <string>

namespace berth {

enum class Severity { warning, error };

struct Report {
  Severity severity;
  std::string message;  ///< one line, without a trailing newline
};

/// Called from whichever thread met the problem, perhaps under a lock of berth: it calls nothing of berth,
/// and waits for nobody who does. May be empty: reports are then dropped. What it throws is swallowed.
using ReportSink = std::function<void(const Report&)>;

}  // namespace berth
