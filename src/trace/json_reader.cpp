// SPDX-License-Identifier: Apache-2.0
#include "trace/json_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "trace/host_limit.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

/// Receives the parser's events, and keeps open containers as a stack of values with the position
/// at which each container begins. Every event returns true, to continue, because errors throw.
class JsonListener final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonListener(const std::string& name, PlainData& data, const PlainLimits& limits)
      : name_(name), data_(data), limits_(limits) {}

  [[nodiscard]] PlainValue root() const { return stack_.front(); }

  bool null() override { return push(PlainValue()); }
  bool boolean(bool value) override { return push(PlainValue::boolean(value)); }
  bool number_integer(number_integer_t value) override { return push(PlainValue::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    return push(fits ? PlainValue::integer(static_cast<std::int64_t>(value))
                     : PlainValue::wide_integer());
  }
  bool number_float(number_float_t value, const string_t& /*as_written*/) override {
    return push(PlainValue::real(value));
  }
  bool string(string_t& value) override { return push_text(value); }
  bool binary(binary_t& /*value*/) override { return true; }  // JSON text has none
  bool key(string_t& value) override { return push_text(value); }

  bool start_object(std::size_t /*elements*/) override { return open(); }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_object() override { return close(PlainKind::dict); }
  bool end_array() override { return close(PlainKind::list); }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*error*/) override {
    reject_trace(
        name_, format_text("byte {}: no valid JSON; accepted: one complete JSON value", position));
  }

 private:
  bool push(PlainValue value) {
    if (++values_ > limits_.values)
      reject_trace(name_, format_text("more than {} values of JSON; accepted: at most that",
                                      limits_.values));
    require_room(0);
    stack_.push_back(value);
    return true;
  }

  bool push_text(const string_t& text) {
    require_room(text.size());
    return push(data_.own_text(text));
  }

  /// Requires memory for `bytes` more of text, or for appending the values on the stack to a
  /// container.
  void require_room(std::uint64_t bytes) const {
    if (bytes + data_.bytes_to_append(stack_.size()) + bytes_to_push(stack_) > limits_.host_bytes)
      reject_trace(name_, format_text("value {} of JSON: {}", values_,
                                      describe_host_limit(limits_.host_bytes)));
  }

  bool open() {
    if (begins_.size() >= limits_.depth)
      reject_trace(name_, format_text("JSON nested more than {} deep; accepted: at most that",
                                      limits_.depth));
    begins_.push_back(stack_.size());
    return true;
  }

  bool close(PlainKind kind) {
    const std::size_t begin = begins_.back();
    begins_.pop_back();
    const PlainValue container = data_.make(kind);
    data_.append(container, std::span<const PlainValue>(stack_).subspan(begin));
    stack_.resize(begin);
    return push(container);
  }

  const std::string& name_;
  PlainData& data_;
  const PlainLimits& limits_;
  std::size_t values_ = 0;  ///< pushed so far
  std::vector<PlainValue> stack_;
  std::vector<std::size_t> begins_;  ///< of the open containers, in stack_
};

/// The parser keeps a text or a number twice while it reads, in arrays that double.
constexpr std::size_t kTokenBytesMax = std::size_t{1} << 20;

constexpr std::string_view kSeparators = "\" ,:[]{}\t\r\n";

/// Whether a text or a number of `content` is longer than kTokenBytesMax.
bool has_long_token(std::string_view content) {
  bool in_text = false;
  std::size_t length = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const char c = content[i];
    if (in_text && c == '\\')
      ++i;
    else if (c == '"')
      in_text = !in_text;
    const bool separates = kSeparators.find(c) != std::string_view::npos;
    length = separates && !in_text ? 0 : length + 1;
    if (length > kTokenBytesMax) return true;
  }
  return false;
}

}  // namespace

PlainValue read_json(const std::string& name, std::string_view content, PlainData& data,
                     const PlainLimits& limits) {
  if (has_long_token(content))
    reject_trace(name, "a text or a number of JSON of more than 1 MiB; accepted: at most that");
  JsonListener listener(name, data, limits);
  nlohmann::json::sax_parse(content, &listener);
  return listener.root();
}

}  // namespace berth
