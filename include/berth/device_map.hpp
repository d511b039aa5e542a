// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a file go that was saved on other devices: saved on `cuda:1`, wanted on `cpu`.
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

/// From the device on which a tensor was saved to the one on which it is wanted.
///
/// Text     map   = entry | entry "," map
///          entry = from "=" device
///          from  = device | "*"
///          with `device` as Device::parse() reads it, and "*" for all that no other entry names:
///          "cuda:1=cpu,cuda:2=cuda:0", "*=cpu". Every byte counts, there are no spaces; each `from`
///          stands once.
/// Saved    A table names devices exactly: `cuda` is one that was saved without an ordinal, and not
///          any `cuda:N`. Where a table names neither it nor "*", a tensor stays where it was.
/// Target   `cuda` is the current device of whoever loads.
/// Threads  An immutable value; a function in it is called by the thread that asks.
class BERTH_API DeviceMap {
 public:
  struct Entry {
    Device saved;
    Device target;
  };
  using Function = std::function<Device(Device saved)>;

  /// Everything stays where it was.
  DeviceMap() = default;
  /// A table: {{Device::cuda(1), Device::cpu()}}.
  /// Errors  InvalidArgument: a device is named twice.
  DeviceMap(std::initializer_list<Entry> table) : DeviceMap(std::span(table)) {}
  explicit DeviceMap(std::span<const Entry> table);
  /// What a function says, which may throw.
  /// Errors  InvalidArgument: an empty one.
  explicit DeviceMap(Function function);
  /// Everything goes to `target`: "*=cpu".
  static DeviceMap all_to(Device target);

  /// Errors  InvalidArgument that quotes the first offending entry, says what is wrong with it and what
  ///         is accepted.
  static DeviceMap parse(std::string_view text);
  static Result<DeviceMap> try_parse(std::string_view text);

  /// Where what was saved on `saved` goes.
  /// Errors  What a function throws.
  [[nodiscard]] Device operator()(Device saved) const;

  /// Refuses what cannot be loaded here, before anything is: each of `saved`, which may repeat itself,
  /// has a place among `devices`. Types that berth does not manage are their framework's affair, and
  /// pass.
  /// Errors  InvalidArgument that names each device without a place, where it would go, which devices
  ///         there are, and how to map it. What a function throws.
  void check(const DeviceRegistry& devices, std::span<const Device> saved) const;

 private:
  std::vector<Entry> table_;  ///< sorted by `saved`
  std::optional<Device> others_;
  Function function_;  ///< instead of all that, where it is not empty
};

}  // namespace berth
