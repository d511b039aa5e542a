// SPDX-License-Identifier: Apache-2.0
// Which other streams were recorded on a block: a short list for each of the few blocks that have
// any, from one pool of entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to. The lists are those of allocated and
/// pending blocks.
class UseLists {
 public:
  UseLists() : entries_(1) {}  // number 0 is no entry

  /// Recording twice is recording once.
  void add(Block& block, OwnerId stream);
  void clear(Block& block);
  /// Drops each stream for which `is_over(stream)` says true.
  template <class IsOver>
  void drop_if(Block& block, const IsOver& is_over) {
    for (std::uint32_t* link = &block.uses.list; *link != 0;) {
      const std::uint32_t number = *link;
      if (is_over(entries_[number].stream)) {
        *link = entries_[number].next;
        recycle(number);
      } else {
        link = &entries_[number].next;
      }
    }
  }
  /// Calls visit(OwnerId) for each stream, the last recorded first.
  template <class Visit>
  void for_each(const Block& block, const Visit& visit) const {
    for (std::uint32_t number = block.uses.list; number != 0; number = entries_[number].next) {
      visit(entries_[number].stream);
    }
  }

 private:
  struct Entry {
    OwnerId stream = kUnowned;
    std::uint32_t next = 0;
  };

  void recycle(std::uint32_t number) {
    entries_[number].next = spare_;
    spare_ = number;
  }

  std::vector<Entry> entries_;
  std::uint32_t spare_ = 0;
};

}  // namespace berth
