// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_input.hpp"

#include <optional>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "trace/pickle_number.hpp"
#include "trace/raw_unicode.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

constexpr const char* kAcceptedPickle =
    "accepted: a complete pickle of numbers, texts, lists, tuples and dictionaries";

PlainValue require(const PickleInput& input, std::string_view line,
                   const std::optional<PlainValue>& value, const char* what) {
  if (!value) input.reject(format_text("{} is no {}", quoted(line), what));
  return *value;
}

}  // namespace

void PickleInput::reject(std::string_view problem) const {
  reject_trace(name_, format_text("byte {}: {}; {}", opcode_at_, problem, kAcceptedPickle));
}

std::string_view PickleInput::take(std::uint64_t size) {
  if (size > bytes_left())
    reject(format_text("cut off: {} bytes are needed, {} are left", size, bytes_left()));
  const std::string_view taken = content_.substr(at_, size);
  at_ += size;
  return taken;
}

std::string_view PickleInput::take_line() {
  const auto end = content_.find('\n', at_);
  if (end == std::string_view::npos) reject("cut off: a line without an end");
  const std::string_view line = content_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

PlainValue PickleInput::take_int_line() {
  const auto line = take_line();
  return require(*this, line, parse_int_line(line), "integer");
}

PlainValue PickleInput::take_long_line() {
  const auto line = take_line();
  return require(*this, line, parse_long_line(line), "integer");
}

PlainValue PickleInput::take_float_line() {
  const auto line = take_line();
  return require(*this, line, parse_float_line(line), "number");
}

std::uint64_t PickleInput::take_index_line() {
  const auto line = take_line();
  const PlainValue index = require(*this, line, parse_long_line(line), "memo index");
  if (!index.is(PlainKind::integer) || index.as_integer() < 0)
    reject(format_text("{} is no memo index", quoted(line)));
  return static_cast<std::uint64_t>(index.as_integer());
}

PlainValue PickleInput::take_unicode_line(PlainData& data) {
  const auto line = take_line();
  if (is_plain_ascii(line)) return PlainValue::text(line);
  const auto text = decode_raw_unicode(line);
  if (!text) reject(format_text("{} is no text in raw-unicode-escape", quoted(line)));
  return data.own_text(*text);
}

}  // namespace berth
