// SPDX-License-Identifier: Apache-2.0
// How the command ends, and the failures that decide it. What is thrown otherwise is a failed
// operation.
#pragma once

#include <stdexcept>

namespace berth::tool {

enum class ExitCode : int {
  ok = 0,
  failed = 1,     ///< an operation failed, or a check found something
  usage = 2,      ///< an option, an argument or an environment variable is not accepted
  no_device = 3,  ///< no usable driver, or not the device that was asked for
};

inline constexpr const char* kExitCodeHelp =
    "Exit code: 0 all is well, 1 something failed, 2 wrong usage,\n"
    "3 no usable driver or device.";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct NoDeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace berth::tool
