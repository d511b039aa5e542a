// SPDX-License-Identifier: Apache-2.0
// The words of PTX. Source: PTX ISA, "Syntax", "Fundamental Types".
#pragma once

#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace berth::sim {

/// A character of an identifier, of a directive or of a number.
inline bool continues_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

/// Divides PTX into words, directives such as ".entry", and single other characters.
class PtxWords {
 public:
  explicit PtxWords(std::string_view text) : text_(text) {}

  /// Empty at the end.
  std::string_view next() {
    skip_spaces();
    if (text_.empty()) return {};
    std::size_t length = 1;
    if (continues_word(text_.front()) || text_.front() == '.')
      while (length < text_.size() && continues_word(text_[length])) ++length;
    return take(length);
  }

 private:
  static bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

  std::string_view take(std::size_t length) {
    const std::string_view taken = text_.substr(0, length);
    text_.remove_prefix(taken.size());
    return taken;
  }
  void skip_spaces() {
    for (;;) {
      while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
      if (text_.starts_with("//"))
        take(text_.find('\n'));
      else if (text_.starts_with("/*"))
        take(text_.find("*/", 2) == std::string_view::npos ? text_.size()
                                                           : text_.find("*/", 2) + 2);
      else
        return;
    }
  }

  std::string_view text_;
};

/// Of a fundamental type such as ".u64"; nullopt for other words.
inline std::optional<std::size_t> type_bytes(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 5> sizes = {
      {{"128", 16}, {"64", 8}, {"32", 4}, {"16", 2}, {"8", 1}}};
  if (word.size() < 3 || word[0] != '.' ||
      std::string_view("busf").find(word[1]) == std::string_view::npos)
    return std::nullopt;
  for (const auto& [bits, bytes] : sizes)
    if (word.substr(2) == bits) return bytes;
  return std::nullopt;
}

inline std::size_t number_of(std::string_view word) {
  std::size_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

}  // namespace berth::sim
