// SPDX-License-Identifier: Apache-2.0
// The devices on which the tensors of a file are loaded: saved on `cuda:1`, loaded on `cpu`.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

class DeviceRegistry;

/// Maps the device on which a tensor was saved to the device on which it is loaded.
///
/// Text, with `device` as Device::parse() reads it and "*" for all devices that no other entry
/// names:
///
///     map   = entry | entry "," map
///     entry = from "=" device
///     from  = device | "*"
///
/// For example "cuda:1=cpu,cuda:2=cuda:0" or "*=cpu". There are no spaces. Each `from` occurs once.
///
/// Saved    A table matches devices exactly: `cuda` matches only a device that was saved without an
///          ordinal, and no `cuda:N`. If a table names neither the device nor "*", the device maps
///          to itself.
/// Target   `cuda` is the current device of the thread that loads.
/// Threads  An immutable value; a function in it is called by the calling thread.
class BERTH_API DeviceMap {
 public:
  /// One row of a table.
  struct Entry {
    Device saved;
    Device target;
  };
  using Function = std::function<Device(Device saved)>;

  /// Maps every device to itself.
  DeviceMap() = default;
  /// A table: {{Device::cuda(1), Device::cpu()}}.
  /// Errors  InvalidArgument: a device is named twice.
  DeviceMap(std::initializer_list<Entry> table) : DeviceMap(std::span(table)) {}
  explicit DeviceMap(std::span<const Entry> table);
  /// Calls a function, which may throw.
  /// Errors  InvalidArgument: an empty function.
  explicit DeviceMap(Function function);
  /// Maps every device to `target`: "*=cpu".
  static DeviceMap all_to(Device target);

  /// Errors  InvalidArgument that quotes the first invalid entry, with the problem and the accepted
  ///         form.
  static DeviceMap parse(std::string_view text);
  static Result<DeviceMap> try_parse(std::string_view text);

  /// The device on which tensors saved on `saved` are to be loaded.
  /// Errors  Exceptions of the function.
  [[nodiscard]] Device operator()(Device saved) const;

  /// Checks before a load that every device of `saved` maps to an existing device of `devices`.
  /// `saved` may contain duplicates. Targets of types without a backend are not checked.
  /// Errors  InvalidArgument that lists each device whose target does not exist, its target, the
  ///         existing devices, and a map that works. Exceptions of the function.
  void check(const DeviceRegistry& devices, std::span<const Device> saved) const;

 private:
  std::vector<Entry> table_;  ///< sorted by `saved`
  std::optional<Device> others_;
  Function function_;  ///< used instead of the table if not empty
};

}  // namespace berth
