// SPDX-License-Identifier: Apache-2.0
// Blocks that were freed while other streams may still use them. Each such use leaves a mark in the
// queue of its stream; a block is ready when its last mark has passed. A mark comes with the event
// that was recorded at the use, or is sealed with one later: one event serves all marks of a stream
// that wait for one, so that many frees in a row cost few driver calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "memory/heap/block.hpp"
#include "memory/order/recorded_event.hpp"
#include "memory/order/use_lists.hpp"

namespace berth {

/// Makes no driver call: it says what to record and what to poll, and is told the answers. Guarded
/// by the lock of the allocator that it belongs to.
class DeferredFrees {
 public:
  /// Queues a pending block behind each of `uses`.
  void add(Block& block, const std::vector<UseLists::Use>& uses);

  /// The clock of marks and events. An event that is recorded from now on covers the marks that
  /// there are, and comes after the events that were numbered up to now.
  [[nodiscard]] std::uint64_t now() const { return clock_; }
  /// The number of an event that has been recorded.
  std::uint64_t tick() { return ++clock_; }
  /// Whether `stream` has marks without an event.
  [[nodiscard]] bool needs_seal(OwnerId stream) const;
  /// Gives `event` to all marks of `stream` up to `began` that have none. It was recorded there from
  /// that time on, or marks the stream's last work; null: it will never have one.
  void seal(OwnerId stream, std::uint64_t began, const SharedEvent& event);

  /// Streams with marks, the one with the oldest first.
  [[nodiscard]] std::vector<OwnerId> streams() const;
  /// What the oldest mark of `stream` waits for; without an event where that is not sealed, or there
  /// is none.
  [[nodiscard]] RecordedEvent front(OwnerId stream) const;
  /// `event` has passed: removes the marks at the front of `stream` that carry it. Returns the
  /// blocks for which that was the last mark; they are still pending, and ready to be released.
  std::vector<Block*> pass(OwnerId stream, const SharedEvent& event);

  [[nodiscard]] bool has_marks(OwnerId stream) const { return queues_.count(stream) == 1; }
  [[nodiscard]] std::size_t mark_count() const;

 private:
  struct Mark {
    std::uint64_t made;
    Block* block;
    RecordedEvent end;  ///< without an event until sealed

    [[nodiscard]] bool is_sealed() const { return end.event != nullptr; }
    /// For how long it is known to wait.
    [[nodiscard]] std::uint64_t since() const { return is_sealed() ? end.before : made; }
  };

  /// By the time of the event, those without one last: so a block whose use is long past does not
  /// wait for what its stream did later. None is empty.
  std::map<OwnerId, std::deque<Mark>> queues_;
  std::uint64_t clock_ = 0;
};

}  // namespace berth
