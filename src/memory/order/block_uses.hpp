// SPDX-License-Identifier: Apache-2.0
// Uses of blocks by other streams, and the points in those streams where they end: a short list for
// each of the few blocks that have any. When the block is freed, each use becomes a mark in the
// queue of its stream. The block is ready when its last mark has passed. A mark has the event that
// was recorded at the use, or is sealed with a later one: one event serves all unsealed marks of a
// stream, so many frees in a row need few driver calls.
//
// Everything that a free needs is created when the use is added: the entry of a use becomes its
// mark, and the queue of a stream exists while a use or a mark refers to the stream. So a free
// cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "heap/block.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// A block may also have a hold: captured graphs may read or write it as long as they exist
/// (GraphHolds). No event marks the end of a hold. When a held block is freed, the hold counts as
/// one more mark.
///
/// Makes no driver call: the caller records and queries events.
/// Threads  Guarded by the lock of the allocator that it belongs to.
class BlockUses {
 public:
  struct Use {
    OwnerId stream = kUnowned;  ///< of a hold: none
    RecordedEvent end;          ///< without an event: the use lasts until the block is freed
  };

  BlockUses() : entries_(1) {}  // number 0 is not an entry

  // The block must be live.

  /// Drops uses that the new one covers; does not add a use that is covered itself.
  /// Errors  std::bad_alloc: nothing is changed.
  void add(Block& block, Use use);
  /// Whether a use of `stream` lasts until the block is freed.
  [[nodiscard]] bool lasts(const Block& block, OwnerId stream) const;
  [[nodiscard]] bool any(const Block& block) const { return block.uses.list != 0; }
  /// Drops each use for which is_over(const Use&) is true.
  template <class IsOver>
  void drop_if(Block& block, const IsOver& is_over) noexcept {
    for (std::uint32_t* link = &block.uses.list; *link != 0;) {
      const std::uint32_t number = *link;
      const Use& use = entries_[number].use;
      if (use.stream != kUnowned && is_over(use)) {
        *link = entries_[number].next;
        leave_queue(queues_.find(use.stream), 1);
        recycle(number);
      } else {
        link = &entries_[number].next;
      }
    }
  }
  /// Calls visit(const Use&) for each, the last recorded first.
  template <class Visit>
  void for_each(const Block& block, const Visit& visit) const {
    for (std::uint32_t number = block.uses.list; number != 0; number = entries_[number].next) {
      if (entries_[number].use.stream != kUnowned) visit(entries_[number].use);
    }
  }

  /// Makes the block pending: its uses become marks. Allocates nothing.
  void defer(Block& block) noexcept;

  // Holds of live and of pending blocks. A block has one hold for each call of hold().

  /// The block must be live.
  /// Errors  std::bad_alloc: nothing is changed.
  void hold(Block& block);
  /// Undoes one hold(). Returns whether the block is pending and now ready to be released.
  /// Allocates nothing.
  bool release_hold(Block& block) noexcept;
  [[nodiscard]] bool is_held(const Block& block) const { return find_hold(block) != 0; }
  /// Number of pending blocks with a hold.
  [[nodiscard]] std::size_t held_count() const { return held_count_; }

  // Of pending blocks.

  /// The clock of marks and events. An event that is recorded from now on covers the existing
  /// marks, and comes after the events that are numbered so far.
  [[nodiscard]] std::uint64_t now() const { return clock_; }
  /// The number of an event that has been recorded.
  std::uint64_t tick() { return ++clock_; }
  [[nodiscard]] bool has_deferred() const { return mark_count_ > 0; }
  /// Whether `stream` has marks without an event.
  [[nodiscard]] bool needs_seal(OwnerId stream) const;
  /// Gives `event` to all marks of `stream` up to `began` that have none. The event was recorded at
  /// that time or later, or marks the stream's last work; null: there will never be one. Allocates
  /// no memory.
  void seal(OwnerId stream, std::uint64_t began, const SharedEvent& event) noexcept;

  /// Calls visit(OwnerId) for each stream that a use or a mark names.
  template <class Visit>
  void for_each_stream(const Visit& visit) const {
    for (const auto& [stream, queue] : queues_) visit(stream);
  }
  /// Streams with marks, the stream of the oldest mark first.
  [[nodiscard]] std::vector<OwnerId> streams() const;
  /// The end that the oldest mark of `stream` awaits; without an event if the mark is not sealed,
  /// or if there is no mark.
  [[nodiscard]] RecordedEvent front(OwnerId stream) const;
  /// The time at which the block of the oldest mark of `stream` was freed. The stream must have
  /// marks.
  [[nodiscard]] std::uint64_t front_made(OwnerId stream) const {
    return entries_[queues_.at(stream).oldest().first].made;
  }
  [[nodiscard]] bool has_marks(OwnerId stream) const;
  /// `event` has passed: removes the marks at the front of `stream` that carry it. Calls
  /// visit(Block&) for each block for which that was the last mark; the block is still pending, and
  /// ready to be released. Returns the number of blocks. visit() neither throws nor calls this
  /// object. Allocates no memory.
  template <class Visit>
  std::size_t complete(OwnerId stream, const SharedEvent& event, const Visit& visit) {
    const auto found = queues_.find(stream);
    if (found == queues_.end()) return 0;
    std::size_t ready = 0;
    std::uint32_t completed = 0;
    for (Queue& queue = found->second; queue.has_marks(); ++completed) {
      List& marks = queue.oldest();
      const std::uint32_t number = marks.first;
      if (entries_[number].use.end.event != event) break;
      Block& block = *entries_[number].block;
      unlink_first(marks);
      recycle(number);
      --mark_count_;
      BERTH_CHECK(block.uses.marks_left > 0);
      if (--block.uses.marks_left > 0) continue;
      ++ready;
      visit(block);
    }
    leave_queue(found, completed);
    return ready;
  }
  [[nodiscard]] std::size_t mark_count() const { return mark_count_; }

  // For a stream that is made to wait for the streams that use pending blocks of one owner.

  /// A mark that has an event, and its stream.
  struct Awaited {
    OwnerId stream = kUnowned;
    RecordedEvent end;
  };
  /// The owners whose blocks are delayed by marks with an event.
  [[nodiscard]] std::vector<OwnerId> owners_held_up() const;
  /// The mark after which `bytes` of `owner` become free, or all blocks that one stream delays: of
  /// the stream with the oldest such mark. nullopt if no mark with an event delays a block of
  /// `owner`.
  [[nodiscard]] std::optional<Awaited> awaited_by(OwnerId owner, std::size_t bytes) const;
  /// The stream of `owner` waits for that mark: as complete(), for blocks of `owner` only, up to
  /// that mark.
  template <class Visit>
  std::size_t complete_for(OwnerId owner, const Awaited& awaited, const Visit& visit) {
    return complete_some(
        owner, awaited, [](const Entry&) { return true; }, visit);
  }
  /// Another stream waits for that mark, and for all work that the owner's stream had at the time
  /// `freed_by`: as complete_for(), for blocks freed by then that no other mark delays. (A block
  /// with two marks would be free after the second, but the stream has not waited for the first.)
  template <class Visit>
  std::size_t complete_for_other(OwnerId owner, const Awaited& awaited, std::uint64_t freed_by,
                                 const Visit& visit) {
    const auto is_ordered = [&](const Entry& entry) {
      return entry.made <= freed_by && entry.block->uses.marks_left == 1;
    };
    return complete_some(owner, awaited, is_ordered, visit);
  }

 private:
  /// A use of a live block, and later its mark; or a spare entry.
  struct Entry {
    Use use;
    std::uint32_t next = 0;  ///< of its block's uses; of its queue's marks; of the spare ones
    std::uint32_t prev = 0;  ///< of its queue's marks
    Block* block = nullptr;  ///< of a mark
    std::uint64_t made = 0;  ///< of a mark: when its block was freed; of a hold: how often
  };

  /// The entry of the block's hold, which stays in its list while the block is pending; 0: none.
  [[nodiscard]] std::uint32_t find_hold(const Block& block) const {
    std::uint32_t number = block.uses.list;
    while (number != 0 && entries_[number].use.stream != kUnowned) number = entries_[number].next;
    return number;
  }
  /// Takes a spare entry, which must exist.
  std::uint32_t take_spare(Block& block, Use use) noexcept;
  /// Ensures that there is a spare entry.
  void reserve_spare() {
    if (spare_ != 0) return;
    entries_.emplace_back();
    recycle(static_cast<std::uint32_t>(entries_.size() - 1));
  }

  template <class IsOrdered, class Visit>
  std::size_t complete_some(OwnerId owner, const Awaited& awaited, const IsOrdered& is_ordered,
                            const Visit& visit) {
    const auto found = queues_.find(awaited.stream);
    if (found == queues_.end()) return 0;
    std::size_t ready = 0;
    std::uint32_t completed = 0;
    List& marks = found->second.sealed;
    for (std::uint32_t number = marks.first; number != 0;) {
      const RecordedEvent& end = entries_[number].use.end;
      if (end.before > awaited.end.before) break;
      const std::uint32_t next = entries_[number].next;
      Block& block = *entries_[number].block;
      // Of two events that were recorded at the same time, neither implies the other.
      const bool has_completed = end.event == awaited.end.event || awaited.end.covers(end);
      if (block.owner == owner && has_completed && is_ordered(entries_[number])) {
        unlink(marks, number);
        recycle(number);
        --mark_count_;
        ++completed;
        BERTH_CHECK(block.uses.marks_left > 0);
        if (--block.uses.marks_left == 0) {
          ++ready;
          visit(block);
        }
      }
      number = next;
    }
    leave_queue(found, completed);
    return ready;
  }

  struct List {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  /// The marks of a stream. Unsealed marks come after those that have an event, so that a block
  /// whose use is long past does not wait for later work of the stream.
  struct Queue {
    List sealed;                    ///< by the time of the event
    List unsealed;                  ///< by the time when they were made
    std::uint32_t entry_count = 0;  ///< uses and marks of the stream; not 0 outside of calls

    [[nodiscard]] bool has_marks() const { return sealed.first != 0 || unsealed.first != 0; }
    [[nodiscard]] List& oldest() { return sealed.first != 0 ? sealed : unsealed; }
    [[nodiscard]] const List& oldest() const { return sealed.first != 0 ? sealed : unsealed; }
  };
  using Queues = std::map<OwnerId, Queue>;

  /// The time up to which the oldest mark is known to wait.
  [[nodiscard]] std::uint64_t since(const Queue& queue) const;
  void leave_queue(Queues::iterator queue, std::uint32_t entry_count) noexcept {
    if ((queue->second.entry_count -= entry_count) == 0) queues_.erase(queue);
  }
  void insert_by_event(List& marks, std::uint32_t number) noexcept;
  void link_behind(List& marks, std::uint32_t place, std::uint32_t number) noexcept;
  void unlink(List& marks, std::uint32_t number) noexcept {
    const auto [prev, next] = std::pair(entries_[number].prev, entries_[number].next);
    (prev != 0 ? entries_[prev].next : marks.first) = next;
    (next != 0 ? entries_[next].prev : marks.last) = prev;
  }
  void unlink_first(List& marks) noexcept { unlink(marks, marks.first); }
  void recycle(std::uint32_t number) noexcept {
    entries_[number] = {{}, spare_};  // releases its event
    spare_ = number;
  }

  std::vector<Entry> entries_;
  std::uint32_t spare_ = 0;
  Queues queues_;
  std::size_t mark_count_ = 0;
  std::size_t held_count_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace berth
