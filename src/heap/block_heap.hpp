// SPDX-License-Identifier: Apache-2.0
// The block heap: segments tiled by blocks, best fit with splitting and coalescing. It does not use
// drivers, events or locks.
//
// Invariants, which validate() checks:
// - The blocks of a segment tile it in address order, without gap or overlap.
// - Each free block is in exactly one free index, that of its owner.
// - No two neighbors are both free with the same owner, nor both unmapped.
// - Each allocated or cached block, and no other, is in the pointer map.
// - A stitched block lies in no segment: its parts do, and they add up to its size.
// - Every owner with blocks that are in use or pending has a free index.
//
// Host memory may run out. Functions that document this fail before they change the heap. All
// others allocate no host memory; in particular, returning memory never fails.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "heap/block.hpp"
#include "heap/block_records.hpp"
#include "heap/block_starts.hpp"
#include "heap/blocks_by_address.hpp"
#include "heap/free_index.hpp"
#include "heap/granule_index.hpp"
#include "heap/pointer_map.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to. A Block* stays valid until the block is
/// coalesced into a neighbor or its segment is removed, which does not happen to an allocated,
/// pending or held block.
class BlockHeap {
 public:
  /// Memory is mapped in granules of this size, a power of two; whole free granules are kept whole
  /// if possible. Call it before the first segment is added.
  void set_granule_bytes(std::size_t bytes);
  [[nodiscard]] bool has_granules() const { return granule_bytes_ > 0; }
  /// 0 if there are none.
  [[nodiscard]] std::size_t granule_bytes() const { return granule_bytes_; }

  /// The index of an owner's holes (FreeIndex::holes()). Requires granules and a segment.
  [[nodiscard]] const GranuleIndex& holes() const { return *holes_; }
  /// The same, complete for all owners until the heap changes. Its cost grows with the number of
  /// owners.
  [[nodiscard]] const GranuleIndex& holes_of_all() const;

  /// Adds a range as one held block, which release_held() makes available. With granules, it begins
  /// at a granule and is the only segment.
  /// Errors  OutOfMemory, std::bad_alloc.
  Block& add_segment(std::uintptr_t address, std::size_t bytes);
  /// Converts to its first block.
  struct Segment {
    Block* first = nullptr;
    std::size_t bytes = 0;
    /// Created by the first find_covering() in a segment of many blocks.
    mutable std::unique_ptr<BlockStarts> starts{};

    operator Block*() const { return first; }  // NOLINT: a conversion by design
    Block* operator->() const { return first; }
  };
  using Segments = std::map<std::uintptr_t, Segment>;
  /// Removes the segment that consists of one held block; another segment may then use its
  /// addresses.
  [[nodiscard]] Segments::node_type detach_segment(Block& whole) noexcept;
  /// Undoes detach_segment().
  void attach_segment(Segments::node_type&& detached) noexcept;
  /// Destroys a detached segment.
  void remove_segment(Segments::node_type&& detached) noexcept;

  /// Ensures that release_held() needs no host memory for `owner`, until transfer() finds that
  /// `owner` has no memory left.
  /// Errors  std::bad_alloc.
  void reserve_owner(OwnerId owner) { of(owner); }
  /// Ensures that holding or splitting off the next `count` blocks needs no host memory.
  /// Errors  OutOfMemory, std::bad_alloc.
  void reserve_blocks(std::size_t count);
  /// Ensures that the next split() and stitch() for an owner with blocks need no host memory.
  /// Errors  OutOfMemory, std::bad_alloc.
  void reserve_join();

  /// A place for a block.
  struct Fit {
    Block* hole = nullptr;  ///< null if none fits
    std::uintptr_t address = 0;
    std::size_t granules_broken = 0;  ///< whole free granules that it takes or splits
  };
  /// Best fit among the free blocks of `owner`, otherwise among the unowned ones: the smallest
  /// hole, at its low end unless its high end breaks fewer granules. `bytes` is a multiple of the
  /// heap's rounding, above 0.
  [[nodiscard]] Fit find_fit(std::size_t bytes, OwnerId owner) const;
  /// Number of calls of find_fit().
  [[nodiscard]] std::uint64_t searches() const { return searches_; }
  /// Minimum number of whole granules that a block of `bytes` takes.
  [[nodiscard]] std::size_t granules_needed(std::size_t bytes) const {
    return granule_bytes_ == 0 ? 0 : bytes >> granule_bits_;
  }
  /// Number of whole granules that, stitched together, can contain `bytes`.
  [[nodiscard]] std::size_t granules_to_join(std::size_t bytes) const {
    return granule_bytes_ == 0 ? 0 : bytes / granule_bytes_ + (bytes % granule_bytes_ != 0 ? 1 : 0);
  }
  /// `bytes` rounded down to whole granules.
  [[nodiscard]] std::size_t whole_granules_of(std::size_t bytes) const {
    return granule_bytes_ == 0 ? bytes : bytes / granule_bytes_ * granule_bytes_;
  }
  /// Allocates a block at a place of find_fit().
  /// Errors  OutOfMemory, std::bad_alloc.
  Block& take(const Fit& fit, std::size_t bytes, std::size_t bytes_requested, OwnerId owner);
  Block* take(std::size_t bytes, std::size_t bytes_requested, OwnerId owner) {
    const Fit fit = find_fit(bytes, owner);
    return fit.hole == nullptr ? nullptr : &take(fit, bytes, bytes_requested, owner);
  }
  /// Allocates a stitched block at `address` that consists of `parts`, which are held.
  /// Errors  OutOfMemory, std::bad_alloc.
  Block& stitch(std::span<Block* const> parts, std::uintptr_t address, std::size_t bytes_requested,
                OwnerId owner);
  /// allocated or cached -> pending. The address leaves the pointer map: freeing it again is an
  /// error.
  void set_pending(Block& block) noexcept;
  /// allocated, cached or pending -> free, of `owner`.
  /// Errors  std::bad_alloc, if `owner` is neither the block's owner nor kUnowned.
  void release(Block& block, OwnerId owner);

  /// Counts frees. A block with freed_at <= s was freed before serial() returned s.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  /// The serial of the last free on `owner`, or of the last memory that it took over behind a wait.
  [[nodiscard]] std::uint64_t freed_last(OwnerId owner) const {
    const Owned* const owned = find_owned(owner);
    return owner == kUnowned || owned == nullptr ? 0 : owned->freed_last;
  }
  /// The order that lets memory pass to another owner.
  enum class Order {
    done,         ///< all work on it is done
    behind_wait,  ///< `to` waits for that work: as if `to` freed it now
  };
  /// Transfers the blocks of `from` that were freed up to `serial` to `to`; returns the number of
  /// blocks.
  /// Errors  std::bad_alloc; also of the following, and OutOfMemory.
  std::size_t transfer(OwnerId from, OwnerId to, std::uint64_t serial, Order order = Order::done);
  /// The same for a part of `bytes` of the best fit of `from`. False if there is none.
  bool transfer_fit(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes);
  /// The same for up to `granules` whole granules; returns their number.
  std::size_t transfer_granules(OwnerId from, OwnerId to, std::uint64_t serial,
                                std::size_t granules);
  /// Transfers unowned memory adjacent to free blocks of `owner`, the minimum that makes a hole of
  /// `bytes` with them; false if there is none. Considers only the largest blocks.
  bool extend_hole(OwnerId owner, std::size_t bytes);
  /// The same for the minimum that completes granules shared with unowned memory. Returns their
  /// number.
  std::size_t complete_granules(OwnerId owner);
  /// The same for memory that can be returned to the driver alone, whole granules or, without
  /// granules, whole segments: up to `bytes`, or somewhat more. Returns the number of bytes.
  std::size_t transfer_whole(OwnerId from, OwnerId to, std::uint64_t serial, std::size_t bytes);

  // To make blocks live again where they were.

  /// Makes free memory that of `owner`, whatever owners have pieces of it, and returns the free
  /// block that contains it.
  Block& take_over(std::uintptr_t address, std::size_t bytes, OwnerId owner);
  /// Ensures that take_over(), with take(), or with hold() and stitch(), for the next `count`
  /// blocks of `pieces` free blocks and parts in all need no host memory. Their owners have an
  /// index.
  /// Errors  OutOfMemory, std::bad_alloc.
  void reserve_restored(std::size_t count, std::size_t pieces);

  /// Takes the part [address, address + bytes) out of a free or unmapped block; the remainders on
  /// either side keep their state. Returns the part, held.
  /// Errors  OutOfMemory, std::bad_alloc.
  Block& hold(Block& block, std::uintptr_t address, std::size_t bytes);
  /// Splits the first `bytes` off a held block; returns the rest. Both are held.
  /// Errors  OutOfMemory, std::bad_alloc.
  Block& split(Block& block, std::size_t bytes);
  /// held -> free (of `owner`) or unmapped, coalesced with its neighbors.
  /// Errors  std::bad_alloc, if `owner` has no index yet (reserve_owner).
  void release_held(Block& block, Block::State state, OwnerId owner);

  /// The allocated block that starts at `data`; null if there is none.
  [[nodiscard]] Block* find(const void* data) const;
  /// Every allocated or cached block by address.
  [[nodiscard]] const PointerMap& blocks_in_use() const { return in_use_; }
  /// Called when no thread reads blocks_in_use() without the lock.
  void drop_outgrown_tables() { in_use_.drop_outgrown_tables(); }
  /// Whether `data` points into memory of the heap, in use or not.
  [[nodiscard]] bool covers(const void* data) const;
  /// The addresses of stitched blocks.
  [[nodiscard]] std::set<std::uintptr_t> stitched_addresses() const;
  /// The block of any state that covers `data`; null outside all segments. Visits the blocks
  /// between `data` and the last block in use before it: none if `data` is in use. The first call
  /// for a segment of many blocks visits all of them.
  [[nodiscard]] const Block* find_covering(const void* data) const;
  /// The block of any state that tiles its segment at `address`: of a stitched block, a part. null
  /// outside all segments. As find_covering().
  [[nodiscard]] const Block* tile_at(std::uintptr_t address) const;
  /// The allocated or cached block that covers `data`, or null.
  [[nodiscard]] Block* find_in_use(const void* data) const;

  /// Calls visit(const Block&) for each block of any state, in no order: the blocks that tile
  /// segments, and the stitched blocks in addition to their parts.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [address, segment] : segments_) {
      for (const Block* block = segment.first; block != nullptr; block = block->next) visit(*block);
    }
    for (const auto& [address, whole] : stitched_) visit(*whole);
  }
  /// The first block of each segment, by address.
  [[nodiscard]] const Segments& segments() const { return segments_; }
  [[nodiscard]] const BlocksByAddress& unmapped() const { return unmapped_; }
  [[nodiscard]] const FreeIndex& free_blocks(OwnerId owner) const;
  /// Owners other than kUnowned that have free blocks. `room` only provides capacity.
  [[nodiscard]] std::vector<OwnerId> owners_with_free_blocks(std::vector<OwnerId> room = {}) const;
  /// The owners among these with a hole for `bytes`, best fit first.
  [[nodiscard]] std::vector<OwnerId> owners_with_fit(std::size_t bytes) const;
  /// Whether an owner other than `owner` and kUnowned has such a hole, or a whole granule.
  [[nodiscard]] bool others_have_free(OwnerId owner, std::size_t bytes) const;
  /// Number of whole free granules of `owner`.
  [[nodiscard]] std::size_t whole_granules(OwnerId owner) const {
    return free_blocks(owner).holes().whole_granules;
  }
  /// The same with the unowned granules.
  [[nodiscard]] std::size_t whole_granules_for(OwnerId owner) const {
    return whole_granules(owner) + (owner == kUnowned ? 0 : whole_granules(kUnowned));
  }
  [[nodiscard]] std::size_t free_count() const { return free_count_; }
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] std::size_t largest_free_bytes() const;
  /// Allocated and cached blocks.
  [[nodiscard]] std::size_t in_use_count() const { return in_use_.count(); }
  /// Host memory for blocks and their indices.
  [[nodiscard]] std::size_t metadata_bytes() const;

  void validate() const;

 private:
  /// The state of one owner.
  struct Owned {
    FreeIndex free;
    std::size_t taken = 0;  ///< blocks in use or pending, which return to it
    std::uint64_t freed_last = 0;
  };
  using Owners = std::unordered_map<OwnerId, std::unique_ptr<Owned>>;

  /// Creates it if it does not exist.
  Owned& of(OwnerId owner) {
    if (owner == last_owner_) [[likely]]
      return *owned_by_last_;
    return owner == kUnowned ? unowned_ : look_up(owner);
  }
  Owned& look_up(OwnerId owner);
  Owners::iterator make_owned(OwnerId owner);
  /// Null if it is not there.
  [[nodiscard]] const Owned* find_owned(OwnerId owner) const {
    if (owner == last_owner_) [[likely]]
      return owned_by_last_;
    const auto found = owned_.find(owner);
    return found == owned_.end() ? nullptr : found->second.get();
  }
  /// Null if it is not there.
  [[nodiscard]] FreeIndex* free_of(OwnerId owner);
  /// Removes an owner that has no free, used or pending blocks.
  void drop_if_done(OwnerId owner) noexcept;
  static constexpr std::size_t kSparesMax = 16;

  /// Removes a part of a free or unmapped block from its index. Reserves no host memory.
  Block& carve(Block& block, FreeIndex& free, std::uintptr_t address, std::size_t bytes);
  Block& carve_free(Block& hole, FreeIndex& free, std::uintptr_t address, std::size_t bytes);
  /// The same for a part at the end of a free block, which stays in its index.
  Block& cut_off(Block& hole, FreeIndex& free, std::uintptr_t address, std::size_t bytes);
  Block& split_off(Block& block, std::size_t bytes);
  /// Calls visit(Block&) for the largest free blocks of `owner` that have an unowned neighbor,
  /// until it returns true. It may transfer memory to the block.
  template <class Visit>
  void for_some_beside_unowned(OwnerId owner, const Visit& visit);
  /// The end of the free memory of the block's owner or unowned that continues behind the block (or
  /// before it), at most `limit`.
  static std::uintptr_t reach_up(const Block& block, std::uintptr_t limit);
  static std::uintptr_t reach_down(const Block& block, std::uintptr_t limit);
  /// Transfers the unowned memory up to that end to the block's owner. Returns the resulting block.
  Block& grow_up(Block& block, std::uintptr_t limit);
  Block& grow_down(Block& block, std::uintptr_t limit);
  /// Transfers a part of a free block to `to`.
  void pass_on(Block& block, FreeIndex& from, std::uintptr_t address, std::size_t bytes,
               OwnerId owner, Owned& to);
  // Neighbors in a segment.
  void link_before(Block& block, Block& added);
  void link_after(Block& block, Block& added);
  void set_next(Block* before, std::uintptr_t address, Block& block);
  /// Merges the next block into `block`. The caller updates `bytes` and the index.
  void absorb_next(Block& block) noexcept;
  void insert_free(Block& block, OwnerId owner, Owned& owned) noexcept;
  void insert_unmapped(Block& block) noexcept;
  /// Whether two neighbors should be coalesced.
  static bool belong_together(const Block& a, const Block& b);
  [[nodiscard]] std::size_t granules_broken(const Block& hole, std::uintptr_t address,
                                            std::size_t bytes) const {
    if (hole.bytes < granule_bytes_min_) return 0;
    const std::uintptr_t below = granule_bytes_ - 1;
    const std::uintptr_t begin =
        std::max((hole.address + below) >> granule_bits_, address >> granule_bits_);
    const std::uintptr_t end =
        std::min(hole.end() >> granule_bits_, (address + bytes + below) >> granule_bits_);
    return begin < end ? end - begin : 0;
  }
  [[nodiscard]] Fit fit_in(Block& hole, std::size_t bytes) const;
  void release_parts(Block& whole, OwnerId owner, Owned& owned) noexcept;
  void index(Block& block, FreeIndex& free) noexcept;
  void unindex(Block& block, FreeIndex& free) noexcept;

  /// Insertion into and removal from the pointer map.
  void enter_use(Block& block) noexcept;
  void leave_use(Block& block) noexcept;
  void note_start(const Block& block, bool is_in_use) noexcept;
  [[nodiscard]] Segments::iterator segment_of(const Block& block);
  /// segments_.end() outside all of them.
  [[nodiscard]] Segments::const_iterator segment_covering(std::uintptr_t address) const;
  /// The block that covers `address`, which is in the segment, or a block before it with none in
  /// use between.
  [[nodiscard]] const Block& near(std::uintptr_t address, std::uintptr_t segment_address,
                                  const Segment& segment) const;
  /// Whether the segment has BlockStarts: false if there is no memory for them.
  [[nodiscard]] bool has_starts(std::uintptr_t address, const Segment& segment) const;

  /// Counts of validate().
  struct Seen {
    std::size_t blocks = 0;
    std::size_t free = 0;
    std::size_t in_use = 0;
    std::size_t parts = 0;
    std::size_t held = 0;
    std::size_t unmapped = 0;
    std::size_t taken = 0;
    std::unordered_map<OwnerId, std::size_t> taken_by{};
  };
  void validate_segment(const Segment& segment, Seen& seen) const;
  void validate_use(const Block& block, Seen& seen) const;
  void validate_stitched(Seen& seen) const;
  void validate_owners(const Seen& seen) const;

  BlockRecords records_;
  PointerMap in_use_{records_};
  std::unique_ptr<GranuleIndex> holes_;  ///< null if there are no granules
  Owned unowned_;
  Owners owned_;
  /// Dropped owners, reused for new ones, because streams may pass all their memory to each other
  /// in each step.
  std::vector<Owners::node_type> spares_;
  OwnerId last_owner_ = kUnowned;  ///< of the last call, and usually of the next one
  Owned* owned_by_last_ = &unowned_;
  Segments segments_;
  mutable std::size_t segments_with_starts_ = 0;
  /// With capacity for each held block, so that release_held() cannot fail.
  BlocksByAddress unmapped_;
  BlocksByAddress stitched_;
  std::size_t held_ = 0;           ///< held blocks, including those of detached segments
  std::size_t detached_ = 0;       ///< segments
  std::size_t granule_bytes_ = 0;  ///< 0 if there are none
  std::size_t granule_bytes_min_ = ~std::size_t{0};  ///< larger than any block if there are none
  int granule_bits_ = 0;
  std::size_t free_count_ = 0;
  std::size_t free_bytes_ = 0;
  std::uint64_t serial_ = 0;
  mutable std::uint64_t searches_ = 0;
};

}  // namespace berth
