// SPDX-License-Identifier: Apache-2.0
// The bytes of a pickle, read from front to back, and errors with their position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/plain_data.hpp"

namespace berth {

/// Every function that reads throws if the pickle is truncated, or has other data there.
class PickleInput {
 public:
  PickleInput(const std::string& name, std::string_view content) : name_(name), content_(content) {}

  /// Throws InvalidArgument that names the file, the offset of the latest opcode, and `problem`.
  [[noreturn]] void reject(std::string_view problem) const;

  [[nodiscard]] std::size_t opcode_at() const { return opcode_at_; }
  [[nodiscard]] std::size_t bytes_left() const { return content_.size() - at_; }

  std::uint8_t take_opcode() {
    opcode_at_ = at_;
    return take_number<std::uint8_t>();
  }

  /// A view into the content.
  std::string_view take(std::uint64_t size);

  /// Little-endian.
  template <class Integer>
  Integer take_number() {
    const std::string_view bytes = take(sizeof(Integer));
    std::uint64_t number = 0;
    for (std::size_t i = sizeof(Integer); i-- > 0;)
      number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return static_cast<Integer>(number);
  }

  /// Up to the end of the line, exclusive.
  std::string_view take_line();

  PlainValue take_int_line();
  PlainValue take_long_line();
  PlainValue take_float_line();
  std::uint64_t take_index_line();
  /// `data` owns the text if it has escapes.
  PlainValue take_unicode_line(PlainData& data);

 private:
  const std::string& name_;
  std::string_view content_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
};

}  // namespace berth
