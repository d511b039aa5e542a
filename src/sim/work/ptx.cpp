// SPDX-License-Identifier: Apache-2.0
#include "sim/work/ptx.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

namespace berth::sim {
namespace {

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

/// A character of an identifier, of a directive or of a number.
bool continues_word(char c) {
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
std::optional<std::size_t> type_bytes(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 5> sizes = {
      {{"128", 16}, {"64", 8}, {"32", 4}, {"16", 2}, {"8", 1}}};
  if (word.size() < 3 || word[0] != '.' ||
      std::string_view("busf").find(word[1]) == std::string_view::npos)
    return std::nullopt;
  for (const auto& [bits, bytes] : sizes)
    if (word.substr(2) == bits) return bytes;
  return std::nullopt;
}

std::size_t number_of(std::string_view word) {
  std::size_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

/// Reads up to the closing parenthesis.
std::vector<KernelParameter> read_parameters(PtxWords& words) {
  std::vector<KernelParameter> parameters;
  std::size_t element = 0;
  std::size_t count = 1;
  std::size_t alignment = 0;
  const auto add = [&] {
    if (element == 0) return;
    const std::size_t aligned = std::max<std::size_t>(alignment == 0 ? element : alignment, 1);
    const std::size_t end =
        parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
    parameters.push_back({(end + aligned - 1) / aligned * aligned, element * count});
    element = alignment = 0;
    count = 1;
  };
  for (std::string_view word = words.next(); !word.empty() && word != ")"; word = words.next()) {
    if (word == ",")
      add();
    else if (word == "[")
      count = number_of(words.next());
    else if (word == ".align" && element == 0)  // behind the type it is of what a pointer points to
      alignment = number_of(words.next());
    else if (const auto bytes = type_bytes(word))
      element = *bytes;
  }
  add();
  return parameters;
}

}  // namespace

std::vector<PtxKernel> read_kernels(std::string_view ptx) {
  std::vector<PtxKernel> kernels;
  PtxWords words(ptx);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word != ".entry") continue;
    PtxKernel kernel{std::string(words.next()), {}};
    PtxWords behind = words;
    if (behind.next() == "(") kernel.parameters = read_parameters(behind);
    const auto same = [&](const PtxKernel& known) { return known.name == kernel.name; };
    const bool is_name = !kernel.name.empty() && continues_word(kernel.name.front());
    if (is_name && std::none_of(kernels.begin(), kernels.end(), same))
      kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace berth::sim
