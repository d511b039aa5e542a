// SPDX-License-Identifier: Apache-2.0
// The check at the beginning of an operation, that all its arguments are on one device, and the
// error that says which are not.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "berth/device.hpp"
#include "berth/export.h"

namespace berth {

/// Where an argument of an operation is.
struct DeviceArgument {
  /// As the user knows it, "weight"; empty where it has none: it is called by its position then,
  /// "argument 1" for the first.
  std::string_view name;
  Device device;
};

/// Throws for require_same_device(), whose check is in line.
[[noreturn]] BERTH_API void refuse_different_devices(std::string_view operation,
                                                     std::span<const DeviceArgument> arguments,
                                                     std::string_view hint);

/// Does nothing where all arguments are on one device, or there are none: compares values, obtains
/// no memory and touches no driver. `cuda` is not `cuda:1` here even where that one is current:
/// resolve first.
///
/// `operation` is what the user called, "matmul". `hint` is how the user moves an argument, in the
/// framework's own words, in which {device} stands for the device: "call .to('{device}')". Empty:
/// "move it with a copy to cuda:1".
/// Errors  InvalidArgument: they are not. It names those that are elsewhere, with their devices. The
///         device that is expected is that of most arguments, so that the fewest have to move;
///         among several such devices, the one that comes first.
constexpr void require_same_device(std::string_view operation,
                                   std::span<const DeviceArgument> arguments,
                                   std::string_view hint = {}) {
  for (const DeviceArgument& argument : arguments) {
    if (argument.device != arguments.front().device) {
      refuse_different_devices(operation, arguments, hint);
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
