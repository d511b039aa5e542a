// SPDX-License-Identifier: Apache-2.0
#include "sim/work/ptx_variables.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "sim/work/ptx_words.hpp"

namespace berth::sim {
namespace {

/// Larger than the memory of any device.
constexpr std::size_t kVariableMax = std::size_t{1} << 44;

/// The bits of a number; nullopt for what is no number, and for a decimal fraction.
std::optional<std::uint64_t> bits_of(std::string_view word) {
  int base = 10;
  const std::string_view head = word.substr(0, 2);
  if (head == "0x" || head == "0X" || head == "0f" || head == "0F" || head == "0d" ||
      head == "0D") {
    base = 16;
    word.remove_prefix(2);
  } else if (head == "0b" || head == "0B") {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word.front() == '0') {
    base = 8;
  }
  while (word.ends_with("U")) word.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (word.empty() || failure != std::errc() || end != word.data() + word.size())
    return std::nullopt;
  return value;
}

/// Of the declarators behind one type.
struct ElementType {
  std::size_t bytes = 0;  ///< of one number
  std::size_t count = 1;  ///< of numbers, in a vector
  bool is_real = false;
};

/// The declarations from a state space to the semicolon.
class VariableReader {
 public:
  VariableReader(PtxWords& words, std::vector<ImageVariable>& variables)
      : words_(words), variables_(variables) {}

  void read();

 private:
  void read_attributes();
  /// `name` and what follows, up to a comma or the semicolon, which is the next word.
  void read_declarator(std::string_view name);
  void read_dimension(std::size_t& elements, bool& is_open);
  void read_value(ImageVariable& variable);
  void add_number(ImageVariable& variable, std::string_view word, bool is_negative);
  std::string_view step() { return word_ = words_.next(); }
  [[nodiscard]] bool is_at_end() const { return word_.empty() || word_ == ";"; }

  PtxWords& words_;
  std::vector<ImageVariable>& variables_;
  std::string_view word_;
  ElementType type_;
  bool is_managed_ = false;
};

void VariableReader::read() {
  step();
  while (!is_at_end()) {
    if (word_ == ".attribute") {
      read_attributes();
    } else if (word_ == "[") {  // the bank of a constant
      while (!is_at_end() && word_ != "]") step();
      step();
    } else if (word_ == ".v2" || word_ == ".v4" || word_ == ".v8") {
      type_.count = number_of(word_.substr(2));
      step();
    } else if (const auto bytes = type_bytes(word_)) {
      type_.bytes = *bytes;
      type_.is_real = word_[1] == 'f';
      step();
    } else if (word_ == ".align") {
      step();
      step();
    } else if (continues_word(word_.front()) && type_.bytes != 0) {
      read_declarator(word_);
    } else {
      step();  // a comma, or a type of textures
    }
  }
}

void VariableReader::read_attributes() {
  while (!is_at_end() && word_ != ")") {
    is_managed_ = is_managed_ || word_ == ".managed";
    step();
  }
  step();
}

void VariableReader::read_declarator(std::string_view name) {
  ImageVariable variable{std::string(name), 0, is_managed_, {}, true};
  std::size_t elements = type_.count;
  bool is_open = false;
  step();
  while (word_ == "[") read_dimension(elements, is_open);
  if (word_ == "=") read_value(variable);
  while (!is_at_end() && word_ != ",") step();
  variable.bytes = is_open ? variable.value.size() : elements * type_.bytes;
  if (variable.bytes == 0 || variable.bytes > kVariableMax) return;
  if (!variable.is_value_known) variable.value.clear();
  if (variable.value.size() > variable.bytes) variable.value.resize(variable.bytes);
  variables_.push_back(std::move(variable));
}

void VariableReader::read_dimension(std::size_t& elements, bool& is_open) {
  step();
  is_open = is_open || word_ == "]";
  const std::size_t factor = word_ == "]" ? 1 : number_of(word_);
  elements = factor != 0 && elements > kVariableMax / factor ? kVariableMax : elements * factor;
  while (!is_at_end() && word_ != "]") step();
  step();
}

void VariableReader::read_value(ImageVariable& variable) {
  int depth = 0;
  bool is_negative = false;
  for (step(); !is_at_end(); step()) {
    if (word_ == "{") {
      ++depth;
      // Inner braces may leave out the end of a row.
      if (depth > 1) variable.is_value_known = false;
    } else if (word_ == "}") {
      --depth;
    } else if (word_ == ",") {
      if (depth == 0) return;
    } else if (word_ == "-") {
      is_negative = true;
    } else {
      add_number(variable, word_, is_negative);
      is_negative = false;
    }
  }
}

void VariableReader::add_number(ImageVariable& variable, std::string_view word, bool is_negative) {
  const bool has_bits = word.size() > 2 && std::string_view("fFdD").find(word[1]) != word.npos;
  const auto bits = bits_of(word);
  // The value of a decimal number depends on the type.
  const bool is_known = bits && type_.bytes <= sizeof *bits && (!type_.is_real || has_bits);
  variable.is_value_known = variable.is_value_known && is_known;
  const std::uint64_t value = is_known ? (is_negative ? 0 - *bits : *bits) : 0;
  for (std::size_t byte = 0; byte < type_.bytes; ++byte)
    variable.value.push_back(byte < sizeof value ? std::byte(value >> (8 * byte) & 0xFF)
                                                 : std::byte{0});
}

}  // namespace

std::vector<ImageVariable> read_variables(std::string_view ptx) {
  std::vector<ImageVariable> variables;
  PtxWords words(ptx);
  int depth = 0;  // of braces and parentheses: inside are other uses of the words
  bool is_extern = false;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "{" || word == "(") ++depth;
    if (word == "}" || word == ")") --depth;
    if (depth > 0) continue;
    if (word == ".extern") is_extern = true;
    if (word == ";" || word == "}") is_extern = false;
    if (word != ".global" && word != ".const") continue;
    std::vector<ImageVariable> declared;
    VariableReader(words, declared).read();
    if (!is_extern)
      for (ImageVariable& variable : declared) variables.push_back(std::move(variable));
    is_extern = false;
  }
  return variables;
}

}  // namespace berth::sim
