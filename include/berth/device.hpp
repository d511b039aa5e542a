// SPDX-License-Identifier: Apache-2.0
// A device as a user names it: "cpu", "cuda", "cuda:1".
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// A value: naming a device neither checks that it exists nor touches a driver.
/// DeviceRegistry::resolve() does both.
///
/// Text     `cpu`, `cuda` or `cuda:N` with N a decimal ordinal from 0 to 2^31 - 1 without leading
///          zeros. Case matters, spaces are not accepted. N is the logical ordinal: it counts the
///          devices that CUDA_VISIBLE_DEVICES leaves, in its order.
/// Threads  An immutable value.
class BERTH_API Device {
 public:
  /// The CPU: one device that stands for all cores.
  constexpr Device() noexcept = default;
  static constexpr Device cpu() noexcept { return {}; }
  /// The current CUDA device of the thread that resolves it.
  static constexpr Device cuda() noexcept { return {DeviceKind::cuda, kCurrent}; }
  /// Errors  InvalidArgument: negative.
  static Device cuda(int ordinal);

  /// Errors  InvalidArgument that quotes the text and says what is accepted.
  static Device parse(std::string_view text);
  static Result<Device> try_parse(std::string_view text);

  [[nodiscard]] constexpr DeviceKind kind() const noexcept { return kind_; }
  [[nodiscard]] constexpr bool is_cuda() const noexcept { return kind_ == DeviceKind::cuda; }
  /// False for `cuda`, which stands for the current device.
  [[nodiscard]] constexpr bool has_ordinal() const noexcept { return ordinal_ != kCurrent; }
  /// The logical ordinal; 0 for `cpu`, -1 where !has_ordinal().
  [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

  /// The text that parse() accepts for it.
  [[nodiscard]] std::string to_string() const;

  friend constexpr auto operator<=>(const Device&, const Device&) noexcept = default;

 private:
  static constexpr int kCurrent = -1;
  constexpr Device(DeviceKind kind, int ordinal) noexcept : kind_(kind), ordinal_(ordinal) {}

  DeviceKind kind_ = DeviceKind::cpu;
  int ordinal_ = 0;
};

}  // namespace berth

template <>
struct std::hash<berth::Device> {
  std::size_t operator()(const berth::Device& device) const noexcept {
    return std::hash<std::int64_t>()((std::int64_t(device.kind()) << 32) ^ device.ordinal());
  }
};
