// SPDX-License-Identifier: Apache-2.0
// The working memory of a pickle: a stack of values, divided into frames by marks, and the memo. An
// opcode accesses only values that were pushed since the last mark. A missing value is an error of
// the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trace/pickle_input.hpp"
#include "trace/plain_data.hpp"

namespace berth {

class PickleStack {
 public:
  PickleStack(const PickleInput& input, PlainData& data, const PlainLimits& limits)
      : input_(input), data_(data), limits_(limits) {}

  void push(PlainValue value);
  void push_mark();

  /// Removes the last mark. Returns the position of the first value after it.
  std::size_t pop_mark();
  /// The position of the last `count` values.
  [[nodiscard]] std::size_t begin_of_last(std::size_t count) const;

  /// Replaces the values from `begin` on by a new container with these values.
  void wrap(PlainKind kind, std::size_t begin);
  /// Moves the values from `begin` on into the container below them.
  void append(PlainKind kind, std::size_t begin);

  /// Stores the last value, which stays on the stack, in the memo.
  void put(std::uint64_t index);
  void put_next() { put(memo_.size()); }
  [[nodiscard]] PlainValue get(std::uint64_t index) const;

  /// The only value.
  [[nodiscard]] PlainValue result() const;

 private:
  struct MemoEntry {
    PlainValue value;
    bool is_set = false;
  };

  /// Rejects the input if one more value, a copy of all values in a container, and `memo_bytes` of
  /// the memo exceed the limit of host memory.
  void require_room(std::uint64_t memo_bytes) const;
  [[nodiscard]] std::span<const PlainValue> items_from(std::size_t begin, PlainKind kind) const;

  const PickleInput& input_;
  PlainData& data_;
  const PlainLimits& limits_;
  std::size_t values_ = 0;  ///< pushed so far
  std::vector<PlainValue> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
  std::vector<MemoEntry> memo_;
};

}  // namespace berth
