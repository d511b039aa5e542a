// SPDX-License-Identifier: Apache-2.0
// Blocks that were freed while other streams may still use them. Each such use leaves a mark in the
// queue of its stream; a block is ready when its last mark has passed. One event serves all marks
// of a stream that wait for one, so that many frees in a row cost few driver calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "memory/heap/block.hpp"
#include "memory/order/stream_table.hpp"

namespace berth {

/// Makes no driver call: it says what to record and what to poll, and is told the answers. Guarded
/// by the lock of the allocator that it belongs to.
class DeferredFrees {
 public:
  /// Queues a pending block behind each of `streams`. seal() gives the marks their event.
  void add(Block& block, const std::vector<OwnerId>& streams);

  /// Marks up to this one exist now. An event recorded after mark() covers them.
  [[nodiscard]] std::uint64_t mark() const { return last_mark_; }
  /// Whether `stream` has marks without an event.
  [[nodiscard]] bool needs_seal(OwnerId stream) const;
  /// Gives `event`, recorded on `stream`, to all its marks up to `mark` that have none.
  void seal(OwnerId stream, std::uint64_t mark, const SharedEvent& event);

  /// Streams with marks, the one with the oldest first.
  [[nodiscard]] std::vector<OwnerId> streams() const;
  /// The event of the oldest mark of `stream`; null where that is not sealed, or there is none.
  [[nodiscard]] SharedEvent front(OwnerId stream) const;
  /// `event` has passed: removes the marks at the front of `stream` that carry it. Returns the
  /// blocks for which that was the last mark; they are still pending, and ready to be released.
  std::vector<Block*> pass(OwnerId stream, const SharedEvent& event);

  [[nodiscard]] bool has_marks(OwnerId stream) const { return queues_.count(stream) == 1; }
  [[nodiscard]] std::size_t mark_count() const;

 private:
  struct Mark {
    std::uint64_t number;
    Block* block;
    SharedEvent event;  ///< null until sealed
  };

  std::map<OwnerId, std::deque<Mark>> queues_;  ///< none is empty
  std::uint64_t last_mark_ = 0;
};

}  // namespace berth
