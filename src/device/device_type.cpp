// SPDX-License-Identifier: Apache-2.0
// The names of all types, in one table that only grows. A thread adds a name at the first free
// place by compare-and-swap, after it has read every name before it. So no name is in the table
// twice, no reader waits, and a forked child can use the table.
#include "berth/device_type.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "device/type_name.hpp"

namespace berth {
namespace {

class Name {
 public:
  constexpr explicit Name(std::string_view text) noexcept : bytes_(text.size()) {
    std::copy(text.begin(), text.end(), text_.begin());
  }
  [[nodiscard]] constexpr std::string_view text() const noexcept { return {text_.data(), bytes_}; }

 private:
  /// A zero byte follows the name, as in C.
  std::array<char, DeviceType::kNameBytesMax + 1> text_{};
  std::size_t bytes_;
};

constexpr Name kCpu("cpu");
constexpr Name kCuda("cuda");

/// By number; null from the first free place on. Entries are never removed.
constinit std::array<std::atomic<const Name*>, DeviceType::kCountMax> names{{&kCpu, &kCuda}};

const Name* name_at(int number) noexcept {
  return names[static_cast<std::size_t>(number)].load(std::memory_order_acquire);
}

/// "cpu, cuda, npu".
std::string registered_names() {
  std::vector<std::string_view> texts;
  for (int number = 0; number < DeviceType::count(); ++number)
    texts.push_back(name_at(number)->text());
  return join_texts(texts, ", ");
}

bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}

}  // namespace

bool is_type_name(std::string_view text) {
  return !text.empty() && text.size() <= DeviceType::kNameBytesMax && is_letter(text.front()) &&
         std::ranges::all_of(
             text, [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

DeviceType DeviceType::register_name(std::string_view name) {
  if (!is_type_name(name)) {
    throw InvalidArgument(
        format_text("{} cannot name a device type; accepted: 1 to {} of a-z, 0-9 and _, of which "
                    "the first is a letter",
                    quoted(name), kNameBytesMax));
  }
  std::unique_ptr<const Name> added;
  for (int number = 0; number < kCountMax; ++number) {
    const Name* present = name_at(number);
    if (present == nullptr) {
      if (!added) added = std::make_unique<const Name>(name);
      if (names[static_cast<std::size_t>(number)].compare_exchange_strong(present, added.get())) {
        added.release();  // owned by the table forever
        return DeviceType(number);
      }
    }
    if (present->text() == name) return DeviceType(number);
  }
  throw InvalidArgument(format_text(
      "device type {} cannot be registered: the maximum is {} types; accepted: one of {}",
      quoted(name), kCountMax, registered_names()));
}

std::optional<DeviceType> DeviceType::find(std::string_view name) noexcept {
  for (int number = 0; number < kCountMax; ++number) {
    const Name* const present = name_at(number);
    if (present == nullptr) break;
    if (present->text() == name) return DeviceType(number);
  }
  return std::nullopt;
}

std::optional<DeviceType> DeviceType::from_number(int number) noexcept {
  if (number < 0 || number >= kCountMax || name_at(number) == nullptr) return std::nullopt;
  return DeviceType(number);
}

int DeviceType::count() noexcept {
  int count = 0;
  while (count < kCountMax && name_at(count) != nullptr) ++count;
  return count;
}

std::string_view DeviceType::name() const noexcept {
  return name_at(number_)->text();
}

}  // namespace berth
