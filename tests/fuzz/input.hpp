// SPDX-License-Identifier: Apache-2.0
// The bytes of one input, read from the front. After the last come zeros, and a zero is always the
// ordinary choice: a short input is a well-behaved program, which a mutation spoils in one place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace berth::fuzz {

class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return first;
  }

  /// Of `count` bytes, the least significant first.
  std::uint64_t number(std::size_t count = sizeof(std::uint64_t)) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{byte()} << 8 * i;
    return value;
  }

  /// What comes before the next line feed, which is skipped.
  std::string_view line() {
    const std::string_view text = bytes_.substr(0, bytes_.find('\n'));
    bytes_.remove_prefix(std::min(bytes_.size(), text.size() + 1));
    return text;
  }

  /// The next `count` bytes, or as many as there are, as an input of their own.
  Input take(std::size_t count) {
    const Input taken(bytes_.substr(0, count));
    bytes_.remove_prefix(std::min(bytes_.size(), count));
    return taken;
  }

  [[nodiscard]] std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace berth::fuzz
