// SPDX-License-Identifier: Apache-2.0
#include "trace/plain_data.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace berth {
namespace {

std::uint32_t text_size(std::string_view text) {
  BERTH_CHECK(text.size() <= std::numeric_limits<std::uint32_t>::max());
  return static_cast<std::uint32_t>(text.size());
}

[[maybe_unused]] bool is_container(PlainKind kind) {
  return kind >= PlainKind::list;
}

}  // namespace

const char* describe(PlainKind kind) {
  switch (kind) {
    case PlainKind::none:
      return "nothing";
    case PlainKind::boolean:
      return "a truth value";
    case PlainKind::integer:
      return "an integer";
    case PlainKind::wide_integer:
      return "an integer of more than 64 bits";
    case PlainKind::real:
      return "a real number";
    case PlainKind::text:
      return "a text";
    case PlainKind::bytes:
      return "bytes";
    case PlainKind::list:
      return "a list";
    case PlainKind::tuple:
      return "a tuple";
    case PlainKind::dict:
      return "a dictionary";
  }
  return "";
}

PlainValue PlainValue::boolean(bool value) noexcept {
  PlainValue result(PlainKind::boolean);
  result.integer_ = value ? 1 : 0;
  return result;
}

PlainValue PlainValue::integer(std::int64_t value) noexcept {
  PlainValue result(PlainKind::integer);
  result.integer_ = value;
  return result;
}

PlainValue PlainValue::real(double value) noexcept {
  PlainValue result(PlainKind::real);
  result.real_ = value;
  return result;
}

PlainValue PlainValue::text(std::string_view text) noexcept {
  PlainValue result(PlainKind::text);
  result.text_bytes_ = text_size(text);
  result.text_ = text.data();
  return result;
}

PlainValue PlainValue::bytes(std::string_view bytes) noexcept {
  PlainValue result = text(bytes);
  result.kind_ = PlainKind::bytes;
  return result;
}

bool PlainValue::as_boolean() const noexcept {
  BERTH_DCHECK(is(PlainKind::boolean));
  return integer_ != 0;
}

std::int64_t PlainValue::as_integer() const noexcept {
  BERTH_DCHECK(is(PlainKind::integer));
  return integer_;
}

double PlainValue::as_real() const noexcept {
  BERTH_DCHECK(is(PlainKind::real));
  return real_;
}

std::string_view PlainValue::as_text() const noexcept {
  BERTH_DCHECK(is(PlainKind::text) || is(PlainKind::bytes));
  return {text_, text_bytes_};
}

PlainValue PlainData::make(PlainKind kind) {
  BERTH_DCHECK(is_container(kind));
  PlainValue value(kind);
  value.container_ = containers_.size();
  containers_.push_back({items_.size(), 0, 0});
  return value;
}

void PlainData::append(PlainValue value, std::span<const PlainValue> items) {
  BERTH_DCHECK(is_container(value.kind()));
  Container& container = containers_[value.container_];
  const std::size_t size = container.size + items.size();
  BERTH_CHECK(size <= std::numeric_limits<std::uint32_t>::max() / 2);
  if (size > container.capacity) {
    // Most containers are filled at once and get the exact size. Containers that grow double.
    const std::size_t capacity =
        container.size == 0 ? size : std::max(size, 2 * std::size_t{container.capacity});
    const bool is_last = container.begin + container.capacity == items_.size();
    const std::size_t begin = is_last ? container.begin : items_.size();
    items_.resize(begin + capacity);
    if (!is_last)
      std::copy_n(items_.begin() + std::ptrdiff_t(container.begin), container.size,
                  items_.begin() + std::ptrdiff_t(begin));
    container.begin = begin;
    container.capacity = static_cast<std::uint32_t>(capacity);
  }
  std::copy(items.begin(), items.end(),
            items_.begin() + std::ptrdiff_t(container.begin + container.size));
  container.size = static_cast<std::uint32_t>(size);
  item_count_ += items.size();
}

std::span<const PlainValue> PlainData::items(PlainValue value) const {
  BERTH_DCHECK(is_container(value.kind()));
  const Container& container = containers_[value.container_];
  return std::span(items_).subspan(container.begin, container.size);
}

const PlainValue* PlainData::find(PlainValue dict, std::string_view key) const {
  BERTH_DCHECK(dict.is(PlainKind::dict));
  const auto entries = items(dict);
  for (std::size_t i = entries.size(); i >= 2; i -= 2) {
    const PlainValue& candidate = entries[i - 2];
    if (candidate.is(PlainKind::text) && candidate.as_text() == key) return &entries[i - 1];
  }
  return nullptr;
}

PlainValue PlainData::own_text(std::string_view text) {
  auto entry = texts_.find(text);
  if (entry == texts_.end()) {
    constexpr std::uint64_t node_bytes = 96;
    entry = texts_.emplace(text).first;
    text_bytes_ += node_bytes + text.size();
  }
  return PlainValue::text(*entry);
}

}  // namespace berth
