// SPDX-License-Identifier: Apache-2.0
// The type of a device: `cpu`, `cuda`, and types that frameworks register.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// The part of a device's text before the colon, as a small number. berth manages the devices of
/// `cpu` and `cuda`, and of registered types that have a backend (Runtime::register_backend()). Of
/// other registered types it knows only the name, so that a framework's devices can be values,
/// texts and keys like all others. A type is registered once for the whole process and never
/// removed.
///
/// Numbers count up from 0 in the order of registration, so they have no meaning in another
/// process. Store the name.
/// Threads  An immutable value. All functions are safe from any thread, also before main().
class BERTH_API DeviceType {
 public:
  /// Maximum number of types, including `cpu` and `cuda`.
  static constexpr int kCountMax = 32;
  static constexpr std::size_t kNameBytesMax = 15;

  /// The CPU.
  constexpr DeviceType() noexcept = default;
  static constexpr DeviceType cpu() noexcept { return {}; }
  static constexpr DeviceType cuda() noexcept { return DeviceType(1); }

  /// Returns the type of this name, and registers it if it does not exist. The same name always
  /// gives the same type, so two libraries that register `npu` share one type.
  /// Errors  InvalidArgument: a name that is not 1 to kNameBytesMax characters of a-z, 0-9 and _
  ///         with a letter first; more types than kCountMax. Nothing is registered then.
  static DeviceType register_name(std::string_view name);

  /// The type of this name; nullopt if there is none.
  [[nodiscard]] static std::optional<DeviceType> find(std::string_view name) noexcept;
  /// The type of this number; nullopt if there is none.
  [[nodiscard]] static std::optional<DeviceType> from_number(int number) noexcept;
  /// Current number of types. Their numbers are 0 up to this number, exclusive.
  [[nodiscard]] static int count() noexcept;

  /// 0 for `cpu`, 1 for `cuda`.
  [[nodiscard]] constexpr int number() const noexcept { return number_; }
  /// Valid for the life of the process; followed by a zero byte.
  [[nodiscard]] std::string_view name() const noexcept;

  // Both are declared, because nvcc does not emit the == that <=> alone would imply.
  friend constexpr bool operator==(const DeviceType&, const DeviceType&) noexcept = default;
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
