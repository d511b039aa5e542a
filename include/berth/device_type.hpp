// SPDX-License-Identifier: Apache-2.0
// What a device is: `cpu`, `cuda`, and what frameworks add beside them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "berth/export.h"

namespace berth {

/// The part of a device's text before the colon, as a small number. berth manages the devices of
/// `cpu` and `cuda`; of a type that is registered it knows the name, so that a framework's devices
/// are values, texts and keys like all others. A type is registered once and for the whole process;
/// it never goes away.
///
/// Numbers count up from 0 in the order of registration, so they mean nothing in another process:
/// what is written down is the name.
/// Threads  An immutable value. All functions are safe from any thread, also before main().
class BERTH_API DeviceType {
 public:
  /// How many types there can be, `cpu` and `cuda` among them.
  static constexpr int kCountMax = 32;
  static constexpr std::size_t kNameBytesMax = 15;

  /// The CPU.
  constexpr DeviceType() noexcept = default;
  static constexpr DeviceType cpu() noexcept { return {}; }
  static constexpr DeviceType cuda() noexcept { return DeviceType(1); }

  /// The type of this name, which is registered where it is not yet: the same name always gives the
  /// same type, so that two libraries that bring `npu` along mean one thing.
  /// Errors  InvalidArgument: a name other than 1 to kNameBytesMax of a-z, 0-9 and _ that begins
  ///         with a letter; one more type than kCountMax. Nothing is registered then.
  static DeviceType register_name(std::string_view name);

  /// The type of this name; nullopt where there is none.
  [[nodiscard]] static std::optional<DeviceType> find(std::string_view name) noexcept;
  /// The type of this number; nullopt where there is none.
  [[nodiscard]] static std::optional<DeviceType> from_number(int number) noexcept;
  /// How many types there are now: their numbers are those from 0, below this one.
  [[nodiscard]] static int count() noexcept;

  /// 0 for `cpu`, 1 for `cuda`.
  [[nodiscard]] constexpr int number() const noexcept { return number_; }
  /// Valid for the life of the process; a zero byte follows.
  [[nodiscard]] std::string_view name() const noexcept;

  friend constexpr auto operator<=>(const DeviceType&, const DeviceType&) noexcept = default;

 private:
  constexpr explicit DeviceType(int number) noexcept : number_(static_cast<std::uint8_t>(number)) {}

  std::uint8_t number_ = 0;
};

}  // namespace berth

template <>
struct std::hash<berth::DeviceType> {
  std::size_t operator()(const berth::DeviceType& type) const noexcept {
    return std::hash<int>()(type.number());
  }
};
