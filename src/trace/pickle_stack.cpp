// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_stack.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "trace/host_limit.hpp"

namespace berth {

void PickleStack::push(PlainValue value) {
  if (++values_ > limits_.values) input_.reject(format_text("more than {} values", limits_.values));
  require_room(bytes_to_push(memo_));
  stack_.push_back(value);
}

void PickleStack::require_room(std::uint64_t memo_bytes) const {
  if (data_.bytes_to_append(stack_.size()) + bytes_to_push(stack_) + memo_bytes >
      limits_.host_bytes)
    input_.reject(describe_host_limit(limits_.host_bytes));
}

void PickleStack::push_mark() {
  if (marks_.size() >= limits_.depth)
    input_.reject(format_text("nested more than {} deep", limits_.depth));
  marks_.push_back(stack_.size());
}

std::size_t PickleStack::pop_mark() {
  if (marks_.empty()) input_.reject("a mark is missing");
  const std::size_t begin = marks_.back();
  marks_.pop_back();
  return begin;
}

std::size_t PickleStack::begin_of_last(std::size_t count) const {
  const std::size_t there = stack_.size() - (marks_.empty() ? 0 : marks_.back());
  if (there < count) input_.reject(format_text("{} values are needed, {} are there", count, there));
  return stack_.size() - count;
}

void PickleStack::wrap(PlainKind kind, std::size_t begin) {
  const PlainValue container = data_.make(kind);
  data_.append(container, items_from(begin, kind));
  stack_.resize(begin);
  push(container);
}

void PickleStack::append(PlainKind kind, std::size_t begin) {
  const auto items = items_from(begin, kind);
  const PlainValue container = stack_[begin_of_last(items.size() + 1)];
  if (!container.is(kind))
    input_.reject(
        format_text("{} is needed, {} is there", describe(kind), describe(container.kind())));
  data_.append(container, items);
  stack_.resize(begin);
}

void PickleStack::put(std::uint64_t index) {
  const PlainValue value = stack_[begin_of_last(1)];
  // Picklers number the values of the memo from 0, and each value took at least one byte: a larger
  // index can only be an attempt to make the memo huge.
  if (index >= std::min(input_.opcode_at(), limits_.values))
    input_.reject(format_text("memo index {} is out of order", index));
  if (index >= memo_.size()) {
    if (index >= memo_.capacity())
      require_room((3 * memo_.capacity() + index + 1) * sizeof(MemoEntry));
    memo_.resize(index + 1);
  }
  memo_[index] = {value, true};
}

PlainValue PickleStack::get(std::uint64_t index) const {
  if (index >= memo_.size() || !memo_[index].is_set)
    input_.reject(format_text("memo index {} was never set", index));
  return memo_[index].value;
}

PlainValue PickleStack::result() const {
  if (stack_.size() != 1 || !marks_.empty())
    input_.reject(format_text("the pickle ends with {} values instead of one", stack_.size()));
  return stack_.front();
}

std::span<const PlainValue> PickleStack::items_from(std::size_t begin, PlainKind kind) const {
  const auto items = std::span<const PlainValue>(stack_).subspan(begin);
  if (kind == PlainKind::dict && items.size() % 2 != 0)
    input_.reject(format_text("{} keys and values are no pairs", items.size()));
  return items;
}

}  // namespace berth
