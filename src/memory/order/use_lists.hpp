// SPDX-License-Identifier: Apache-2.0
// Which other streams use a block, and up to where: a short list for each of the few blocks that
// have any, from one pool of entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/heap/block.hpp"
#include "memory/order/recorded_event.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to. The lists are those of allocated blocks.
class UseLists {
 public:
  struct Use {
    OwnerId stream = kUnowned;
    RecordedEvent end;  ///< without an event: the use lasts until the block is freed
  };

  UseLists() : entries_(1) {}  // number 0 is no entry

  /// Uses that the new one covers go; one that is covered itself is not added.
  void add(Block& block, Use use);
  /// Whether a use of `stream` lasts until the block is freed.
  [[nodiscard]] bool lasts(const Block& block, OwnerId stream) const;
  /// The uses, the last recorded first, which the block has no more.
  [[nodiscard]] std::vector<Use> take(Block& block);
  /// Drops each use for which `is_over(use)` says true.
  template <class IsOver>
  void drop_if(Block& block, const IsOver& is_over) {
    for (std::uint32_t* link = &block.uses.list; *link != 0;) {
      const std::uint32_t number = *link;
      if (is_over(entries_[number].use)) {
        *link = entries_[number].next;
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
      visit(entries_[number].use);
    }
  }

 private:
  struct Entry {
    Use use;
    std::uint32_t next = 0;
  };

  void recycle(std::uint32_t number) {
    entries_[number] = {{}, spare_};  // its event serves somebody else from now on
    spare_ = number;
  }

  std::vector<Entry> entries_;
  std::uint32_t spare_ = 0;
};

}  // namespace berth
