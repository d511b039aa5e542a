// SPDX-License-Identifier: Apache-2.0
#include "device/similar_device.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace berth {
namespace {

/// Longer than any device in capitals with some spaces around it.
constexpr std::size_t kTextBytesMax = 64;

/// Words that other frameworks use.
constexpr struct {
  std::string_view word;
  DeviceType type;
} kOtherWords[] = {
    {"gpu", DeviceType::cuda()},
    {"nvidia", DeviceType::cuda()},
    {"host", DeviceType::cpu()},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_of_a_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || c == '_';
}

/// In lower case, without characters at either end that a name cannot have.
std::string tidied(std::string_view text) {
  std::string result;
  for (const char c : text) result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto first = std::ranges::find_if(result, is_of_a_name);
  result.erase(result.begin(), first);
  while (!result.empty() && !is_of_a_name(result.back())) result.pop_back();
  return result;
}

/// Whether the two differ by one letter that was inserted, omitted or replaced, or by two swapped
/// letters. Words with different first letters are different: "npu" is not a typo of "cpu".
bool is_one_slip(std::string_view a, std::string_view b) {
  constexpr std::size_t kLettersMin = 3;
  if (std::min(a.size(), b.size()) < kLettersMin || a.front() != b.front()) return false;
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  if (a.size() == 2 && b.size() == 2) return a[0] == b[1] && a[1] == b[0];
  return a.size() <= 1 && b.size() <= 1;
}

std::optional<DeviceType> known_type(std::string_view name) {
  if (const auto type = DeviceType::find(name)) return type;
  for (const auto& other : kOtherWords) {
    if (name == other.word) return other.type;
  }
  return std::nullopt;
}

std::optional<DeviceType> similar_type(std::string_view name) {
  if (const auto type = known_type(name)) return type;
  std::optional<DeviceType> similar;
  for (int number = 0; const auto type = DeviceType::from_number(number); ++number) {
    if (!is_one_slip(name, type->name())) continue;
    if (similar) return std::nullopt;
    similar = type;
  }
  return similar;
}

/// The device of a type and the text of its ordinal; leading zeros are ignored.
std::optional<Device> device_of(DeviceType type, std::string_view digits) {
  if (digits.empty()) return Device::of(type);
  int ordinal = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, ordinal);
  if (!is_digit(digits.front()) || stop != end || failure != std::errc()) return std::nullopt;
  return type == DeviceType::cpu() ? Device::cpu() : Device::of(type, ordinal);
}

}  // namespace

std::optional<Device> similar_device(std::string_view text) {
  if (text.size() > kTextBytesMax) return std::nullopt;
  const std::string tidy = tidied(text);
  const std::string_view whole = tidy;
  if (const auto colon = whole.find(':'); colon != std::string_view::npos) {
    const auto type = similar_type(tidied(whole.substr(0, colon)));
    return type ? device_of(*type, whole.substr(colon + 1)) : std::nullopt;
  }
  // "cuda1" is a type and its ordinal, unless the whole text is a type.
  std::string_view name = whole;
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  if (!known_type(whole)) {
    if (const auto type = known_type(tidied(name))) {
      return device_of(*type, whole.substr(name.size()));
    }
  }
  const auto type = similar_type(whole);
  return type ? std::optional(Device::of(*type)) : std::nullopt;
}

}  // namespace berth
