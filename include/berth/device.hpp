// SPDX-License-Identifier: Apache-2.0
// A device as a user names it: "cpu", "cuda", "cuda:1".
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "berth/device_type.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

/// The name of a device, a value of 8 bytes. It does not check that the device exists and makes no
/// driver call; DeviceRegistry::resolve() does both. Devices are ordered by the number of their
/// type, then by ordinal, with devices without an ordinal first.
///
/// Text:
///
///     device  = type | type ":" ordinal
///     type    = "cpu" | "cuda" | a name that DeviceType knows
///     ordinal = "0" | digit from 1 to 9, followed by digits from 0 to 9
///
/// - The ordinal is at most kOrdinalMax. Case matters. Spaces, signs, leading zeros and digits
///   other than ASCII digits are rejected.
/// - `cpu` is one device that stands for all cores. `cpu:0` is the same device, for programs that
///   number every device. Any other `cpu:N` is rejected.
/// - `cuda`, like any other type alone, is the current device of that type, which is known only
///   when it is resolved. `cuda` and `cuda:0` are different values.
/// - N of `cuda:N` is the logical ordinal: it counts the devices that CUDA_VISIBLE_DEVICES leaves,
///   in its order. N of a registered type is defined by its framework.
///
/// Threads  An immutable value.
class BERTH_API Device {
 public:
  /// The highest ordinal.
  static constexpr int kOrdinalMax = std::numeric_limits<int>::max();

  /// The CPU.
  constexpr Device() noexcept = default;
  static constexpr Device cpu() noexcept { return {}; }
  /// The current CUDA device of the thread that resolves it.
  static constexpr Device cuda() noexcept { return of(DeviceType::cuda()); }
  /// Errors  InvalidArgument: negative.
  static Device cuda(int ordinal) { return of(DeviceType::cuda(), ordinal); }

  /// The current device of a type; for `cpu` the only device.
  static constexpr Device of(DeviceType type) noexcept {
    return {type, type == DeviceType::cpu() ? 0 : kCurrent};
  }
  /// Errors  InvalidArgument: negative, or `cpu` with an ordinal other than 0.
  static Device of(DeviceType type, int ordinal);

  /// Errors  InvalidArgument that quotes the text, says what is wrong and what is accepted,
  ///         including registered types, and suggests a device if the text is close to one.
  static Device parse(std::string_view text);
  static Result<Device> try_parse(std::string_view text);

  [[nodiscard]] constexpr DeviceType type() const noexcept { return type_; }
  [[nodiscard]] constexpr bool is_cpu() const noexcept { return type_ == DeviceType::cpu(); }
  [[nodiscard]] constexpr bool is_cuda() const noexcept { return type_ == DeviceType::cuda(); }
  /// False for a type alone, which means its current device. True for `cpu`.
  [[nodiscard]] constexpr bool has_ordinal() const noexcept { return ordinal_ != kCurrent; }
  /// 0 for `cpu`, -1 if !has_ordinal().
  [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

  /// The text that parse() accepts for this device: `cpu`, `cuda`, `cuda:1`.
  [[nodiscard]] std::string to_string() const;

  // Both are declared, as for DeviceType.
  friend constexpr bool operator==(const Device&, const Device&) noexcept = default;
  friend constexpr auto operator<=>(const Device&, const Device&) noexcept = default;

 private:
  static constexpr int kCurrent = -1;
  constexpr Device(DeviceType type, int ordinal) noexcept : type_(type), ordinal_(ordinal) {}

  DeviceType type_ = DeviceType::cpu();
  int ordinal_ = 0;
};

}  // namespace berth

template <>
struct std::hash<berth::Device> {
  std::size_t operator()(const berth::Device& device) const noexcept {
    const auto ordinal = static_cast<std::uint32_t>(device.ordinal());
    return std::hash<std::uint64_t>()((std::uint64_t(device.type().number()) << 32) | ordinal);
  }
};
