// SPDX-License-Identifier: Apache-2.0
// Writes one JSON value as text on one line.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace berth {

/// Appends `text` as a JSON string. Each ill-formed part of its UTF-8 becomes U+FFFD.
void append_json_string(std::string& json, std::string_view text);

/// Calls follow the structure of the value: in an object a key before each value. Strings that are
/// not UTF-8 are written as well.
/// Threads  One at a time.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    append_json_string(text_, name);
    text_ += ':';
    is_first_ = true;  // no comma between key and value
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    separate();
    append_json_string(text_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(std::integral auto number) { return raw(std::to_string(number)); }
  /// `null` for values that JSON numbers cannot represent.
  JsonWriter& value(double number) {
    if (!std::isfinite(number)) return null();
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    return raw({text.data(), static_cast<std::size_t>(end - text.data())});
  }
  JsonWriter& null() { return raw("null"); }

  /// Calls key() and value().
  template <class Value>
  JsonWriter& field(std::string_view name, const Value& member) {
    return key(name).value(member);
  }

  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  JsonWriter& raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    is_first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    is_first_ = false;
    return *this;
  }
  void separate() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
  }

  std::string text_;
  bool is_first_ = true;  ///< the next value needs no comma before it
};

}  // namespace berth
