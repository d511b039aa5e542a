// SPDX-License-Identifier: Apache-2.0
// The block heap: segments tiled by blocks, best fit with splitting and coalescing. Knows nothing
// of drivers, events or locks.
//
// Holds at every moment, and validate() checks it:
//   - the blocks of a segment tile it in address order, without gap or overlap
//   - each free block is in exactly one free index, that of its owner
//   - no two neighbours are both free with the same owner, nor both unmapped
//   - each allocated or cached block, and no other, is in the pointer map
//   - a stitched block lies in no segment: its parts do, which add up to its size
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory/heap/block.hpp"
#include "memory/heap/block_records.hpp"
#include "memory/heap/free_index.hpp"
#include "memory/heap/pointer_map.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to. A Block* stays valid until the block is
/// coalesced into a neighbour or its segment is removed; an allocated, pending or held one is
/// neither.
class BlockHeap {
 public:
  /// Memory is mapped in granules of this size, a power of two; whole free ones are then kept whole
  /// where possible. To be said before the first segment.
  void set_granule_bytes(std::size_t bytes);
  [[nodiscard]] bool has_granules() const { return granule_bytes_ > 0; }
  /// 0 where there are none.
  [[nodiscard]] std::size_t granule_bytes() const { return granule_bytes_; }

  /// Adds a range as one held block, which settle() then puts into circulation.
  Block& add_segment(std::uintptr_t address, std::size_t bytes);
  using Segments = std::map<std::uintptr_t, Block*>;
  /// Takes out the segment of a held block that is the whole of it: nothing is found there any more, and
  /// another segment may get its addresses.
  [[nodiscard]] Segments::node_type detach_segment(Block& whole);
  /// Undoes that. Allocates nothing.
  void attach_segment(Segments::node_type&& detached) noexcept;
  /// Ends it.
  void remove_segment(Segments::node_type&& detached) noexcept;

  /// A place for a block.
  struct Fit {
    Block* hole = nullptr;  ///< null where none fits
    std::uintptr_t address = 0;
    std::size_t granules_broken = 0;  ///< whole free granules that it takes or cuts into
  };
  /// Best fit among the free blocks of `owner` and the unowned ones: the smallest hole, at its low end
  /// unless its high end breaks fewer granules. `bytes` is a multiple of the heap's rounding, above 0.
  [[nodiscard]] Fit find_fit(std::size_t bytes, OwnerId owner) const;
  /// How many whole granules a block of `bytes` takes at least, next to others.
  [[nodiscard]] std::size_t granules_needed(std::size_t bytes) const {
    return granule_bytes_ == 0 ? 0 : bytes / granule_bytes_;
  }
  /// `bytes` less what is no whole granule.
  [[nodiscard]] std::size_t whole_granules_of(std::size_t bytes) const {
    return granule_bytes_ == 0 ? bytes : bytes / granule_bytes_ * granule_bytes_;
  }
  /// Allocates there.
  Block& take(const Fit& fit, std::size_t bytes, std::size_t bytes_requested, OwnerId owner);
  Block* take(std::size_t bytes, std::size_t bytes_requested, OwnerId owner) {
    const Fit fit = find_fit(bytes, owner);
    return fit.hole == nullptr ? nullptr : &take(fit, bytes, bytes_requested, owner);
  }
  /// Allocates a stitched block at `address` that consists of `parts`, which are held.
  Block& join(std::span<Block* const> parts, std::uintptr_t address, std::size_t bytes_requested,
              OwnerId owner);
  /// allocated or cached -> pending. The address leaves the pointer map: freeing it again is an
  /// error.
  void set_pending(Block& block);
  /// allocated, cached or pending -> free, of `owner`.
  void release(Block& block, OwnerId owner);

  /// Counts frees. A block with freed_at <= s was freed before serial() said s.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  /// Gives the free blocks of `from` that were freed up to `serial` to `to`; returns how many.
  std::size_t transfer(OwnerId from, OwnerId to, std::uint64_t serial);
  /// The same for as little as makes a hole of `bytes`: a part of the best fit of `from`'s. False
  /// where there is none.
  bool transfer_fit(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes);
  /// The same for up to `granules` whole granules; returns how many.
  std::size_t transfer_granules(OwnerId from, OwnerId to, std::uint64_t serial,
                                std::size_t granules);
  /// The same for what can go back to the driver by itself, whole granules or, where there are none,
  /// whole segments: `bytes` or somewhat more, as far as there are so many. Returns how many bytes.
  std::size_t transfer_whole(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes);

  /// Takes the part [address, address + bytes) out of a free or unmapped block; what remains of it
  /// on either side keeps its state. Returns the part, held.
  Block& hold(Block& block, std::uintptr_t address, std::size_t bytes);
  /// Cuts the first `bytes` off a held block; returns the rest. Both are held.
  Block& split(Block& block, std::size_t bytes);
  /// held -> free (of `owner`) or unmapped, coalesced with its neighbours.
  void settle(Block& block, Block::State state, OwnerId owner);

  /// The allocated block that starts at `data`; null where there is none.
  [[nodiscard]] Block* find(const void* data) const;
  /// Every allocated or cached block by address.
  [[nodiscard]] const PointerMap& blocks_in_use() const { return in_use_; }
  /// To be called when no thread reads blocks_in_use() without the lock any more.
  void drop_outgrown_tables() { in_use_.drop_outgrown_tables(); }
  /// Whether memory, in use or not, is at `data`.
  [[nodiscard]] bool covers(const void* data) const;
  /// Where stitched blocks are.
  [[nodiscard]] std::set<std::uintptr_t> stitched_addresses() const;
  /// The block of any state that covers `data`; null outside all segments. Walks the segment.
  [[nodiscard]] const Block* find_covering(const void* data) const;

  /// Calls visit(const Block&) for each block of any state, in no order: those that tile segments,
  /// and the stitched ones beside their parts.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [address, first] : segments_) {
      for (const Block* block = first; block != nullptr; block = block->next) visit(*block);
    }
    for (const Block* whole : stitched_) visit(*whole);
  }
  /// The first block of each segment, by address.
  [[nodiscard]] const Segments& segments() const { return segments_; }
  [[nodiscard]] const std::map<std::uintptr_t, Block*>& unmapped() const { return unmapped_; }
  [[nodiscard]] const FreeIndex& free_blocks(OwnerId owner) const;
  /// Owners other than kUnowned that have free blocks.
  [[nodiscard]] std::vector<OwnerId> owners_with_free_blocks() const;
  /// Of these, those with a hole for `bytes`, the best fit first.
  [[nodiscard]] std::vector<OwnerId> owners_with_fit(std::size_t bytes) const;
  /// How many granules are free from end to end in blocks of `owner`.
  [[nodiscard]] std::size_t whole_granules(OwnerId owner) const;
  [[nodiscard]] std::size_t free_count() const { return free_count_; }
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] std::size_t largest_free_bytes() const;
  /// Allocated and cached blocks.
  [[nodiscard]] std::size_t in_use_count() const { return in_use_.count(); }
  /// Host memory for blocks and their indices.
  [[nodiscard]] std::size_t metadata_bytes() const;

  void validate() const;

 private:
  /// Takes a part off the end of a free block, which stays in its index. Returns the part, held.
  Block& cut_off(Block& hole, std::uintptr_t address, std::size_t bytes);
  // Neighbours in a segment.
  void link_before(Block& block, Block& added);
  void link_after(Block& block, Block& added);
  /// Drops `gone`, which is in no index and whose bytes its neighbour `heir` is about to have.
  void unlink(Block& gone, Block& heir);
  void absorb_next(Block& block);
  void coalesce_free(Block& block);
  /// Whether two neighbours are to be one block.
  static bool belong_together(const Block& a, const Block& b);
  [[nodiscard]] std::size_t granules_broken(const Block& hole, std::uintptr_t address,
                                            std::size_t bytes) const;
  [[nodiscard]] Fit fit_in(Block& hole, std::size_t bytes) const;
  void release_parts(Block& whole, OwnerId owner);
  /// Free blocks of `owner` that were freed up to then, the smallest first, which serve it least. They
  /// are never neighbours, so that settling one leaves the others in place.
  [[nodiscard]] std::vector<Block*> freed_up_to(std::uint64_t serial, OwnerId owner) const;
  void index(Block& block);
  void unindex(Block& block);
  FreeIndex& free_of(OwnerId owner);
  /// What validate() has counted.
  struct Seen {
    std::size_t free = 0;
    std::size_t in_use = 0;
    std::size_t parts = 0;
  };
  void validate_segment(const Block& first, Seen& seen) const;
  void validate_use(const Block& block, Seen& seen) const;
  void validate_stitched(Seen& seen) const;

  BlockRecords records_;
  PointerMap in_use_{records_};
  FreeIndex unowned_;
  std::unordered_map<OwnerId, std::unique_ptr<FreeIndex>> owned_;
  OwnerId last_owner_ = kUnowned;  ///< whose index was wanted last: most often the next one, too
  FreeIndex* last_index_ = &unowned_;
  Segments segments_;
  std::map<std::uintptr_t, Block*> unmapped_;
  std::vector<Block*> stitched_;
  std::size_t granule_bytes_ = 0;  ///< 0 where there are none
  std::size_t free_count_ = 0;
  std::size_t free_bytes_ = 0;
  std::uint64_t serial_ = 0;
};

}  // namespace berth
