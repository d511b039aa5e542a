// SPDX-License-Identifier: Apache-2.0
// The check at the start of an operation that all its arguments are on one device.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "berth/device.hpp"
#include "berth/export.h"

namespace berth {

/// The device of one argument of an operation.
struct DeviceArgument {
  /// The name that the user knows, "weight". Empty: the argument is identified by its position,
  /// "argument 1" for the first.
  std::string_view name;
  Device device;
};

namespace detail {
/// Throws on behalf of require_same_device(), whose check is inline.
[[noreturn]] BERTH_API void refuse_different_devices(std::string_view operation,
                                                     std::span<const DeviceArgument> arguments,
                                                     std::string_view hint);
}  // namespace detail

/// Checks that all arguments are on one device. Without arguments the check passes. It compares
/// values, allocates no memory and makes no driver call. `cuda` differs from `cuda:1` even if that
/// is the current device: resolve first.
///
/// `operation` is what the user called, "matmul". `hint` tells the user how to move an argument, in
/// the framework's own words; {device} in it is replaced by the device: "call .to('{device}')".
/// Empty: "move it with a copy to cuda:1".
/// Errors  InvalidArgument: the devices differ. The message names the arguments that are elsewhere,
///         with their devices. The expected device is the device of most arguments, so that the
///         fewest have to move; of several such devices, the one that comes first.
constexpr void require_same_device(std::string_view operation,
                                   std::span<const DeviceArgument> arguments,
                                   std::string_view hint = {}) {
  for (const DeviceArgument& argument : arguments) {
    if (argument.device != arguments.front().device) {
      detail::refuse_different_devices(operation, arguments, hint);
    }
  }
}

/// require_same_device("matmul", {{"input", input.device()}, {"weight", weight.device()}});
constexpr void require_same_device(std::string_view operation,
                                   std::initializer_list<DeviceArgument> arguments,
                                   std::string_view hint = {}) {
  require_same_device(operation, std::span(arguments.begin(), arguments.size()), hint);
}

}  // namespace berth
