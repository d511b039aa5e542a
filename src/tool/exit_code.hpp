// SPDX-License-Identifier: Apache-2.0
// The exit codes of the command, and the failures that determine them. Any other exception is a
// failed operation.
#pragma once

#include <stdexcept>

namespace berth::tool {

enum class ExitCode : int {
  ok = 0,
  failed = 1,     ///< an operation failed, or a check found something
  usage = 2,      ///< an option, an argument or an environment variable is not accepted
  no_device = 3,  ///< no usable driver, or no such device
};

inline constexpr const char* kExitCodeHelp =
    "Exit code: 0 success, 1 a failure, 2 invalid usage,\n"
    "3 no usable driver or device.";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct NoDeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace berth::tool
