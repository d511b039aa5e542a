// SPDX-License-Identifier: Apache-2.0
// Free memory at the ends of granules, indexed by size, for page remap.
//
// A free block has up to three such holes: the free end of a granule whose beginning is in use
// (tail), a range of whole free granules, and the free beginning of a granule whose end is in use
// (head). Each is a node in a treap of its owner, ordered by size, then address. A granule has
// storage for two nodes: one for its tail or for the range that begins with it, and one for its
// head. So no operation calls the heap.
//
// Blocks are freed and allocated far more often than granules are stitched. A change is therefore
// noted in its node at once, and applied to the trees when they are searched, or when many nodes
// are queued. Without the queue, a warm pass of recorded traces takes 7 % more instructions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/arithmetic.hpp"
#include "heap/block.hpp"

namespace berth {

template <class Nodes>
class Treap;

/// A granule of an arena, counted from its beginning.
using GranuleNumber = std::uint32_t;

/// A part of a free block.
struct Extent {
  Block* source = nullptr;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;

  [[nodiscard]] std::uintptr_t end() const { return address + bytes; }
};

/// Guarded by the lock of the allocator that it belongs to.
class GranuleIndex {
 public:
  enum class Kind { tail, range, head };
  /// The holes of one owner.
  struct Holes {
    std::uint32_t tails = 0;  ///< roots
    std::uint32_t ranges = 0;
    std::uint32_t heads = 0;
    std::size_t whole_granules = 0;
  };

  /// An index of blocks in a range that begins with a granule.
  GranuleIndex(std::uintptr_t address, std::size_t bytes, std::size_t granule_bytes);
  GranuleIndex(const GranuleIndex&) = delete;
  GranuleIndex& operator=(const GranuleIndex&) = delete;

  void add(Holes& holes, Block& block) {
    if (has_end(block)) add_holes(holes, block);
  }
  void remove(Holes& holes, const Block& block) {
    if (has_end(block)) remove_holes(holes, block);
  }
  /// `holes`, which has no blocks left, may be destroyed afterwards.
  void forget(const Holes& holes) {
    if ((holes.tails | holes.ranges | holes.heads) != 0) apply_changes();
  }

  /// The smallest hole of at least `bytes`; holes of exactly `bytes` only at `from` or above. No
  /// source if there is none.
  [[nodiscard]] Extent at_least(Kind kind, const Holes& holes, std::size_t bytes,
                                std::uintptr_t from = 0) const;
  [[nodiscard]] Extent largest(Kind kind, const Holes& holes) const;

  /// The range of whole free granules that contains `granule`; no source if there is none.
  [[nodiscard]] Extent range_with(GranuleNumber granule) const;

  [[nodiscard]] std::size_t granule_bytes() const { return std::size_t{1} << shift_; }
  [[nodiscard]] std::uintptr_t address_of(GranuleNumber granule) const {
    return address_ + (std::size_t{granule} << shift_);
  }
  [[nodiscard]] GranuleNumber granule_at(std::uintptr_t address) const {
    return static_cast<GranuleNumber>((address - address_) >> shift_);
  }
  /// Whether the holes of a free block are indexed correctly.
  [[nodiscard]] bool contains(const Holes& holes, const Block& block) const;
  [[nodiscard]] std::size_t bytes_committed() const { return granules_seen_ * 2 * sizeof(Node); }

 private:
  /// The root of a tree.
  using Tree = std::uint32_t;
  struct Node {
    Block* block;        ///< null if there is no hole
    Tree* tree;          ///< the tree it belongs to
    std::uint32_t size;  ///< bytes, of a range granules
    // As of the last change that was applied:
    std::uint32_t place_size;
    Tree* place;            ///< null if it is in no tree
    std::uint32_t smaller;  ///< subtrees
    std::uint32_t larger;
    std::uint32_t next_queued;  ///< 0 if no change is queued

    [[nodiscard]] bool is_in_place() const {
      return block == nullptr ? place == nullptr : place == tree && place_size == size;
    }
  };
  /// Of one block.
  struct HolesOfBlock {
    std::uint32_t tail = 0;  ///< its bytes; 0: none
    std::uint32_t range = 0;
    std::uint32_t head = 0;
    GranuleNumber first = 0;  ///< of the range; the tail's is the one before, if there is a tail
    GranuleNumber end = 0;    ///< behind the range: the head's
  };
  struct Places;

  [[nodiscard]] HolesOfBlock holes_of(const Block& block) const {
    const std::uintptr_t address = block.address;
    const std::uintptr_t block_end = block.end();
    const std::uintptr_t begin = align_up(address, granule_bytes());
    const std::uintptr_t end = align_down(block_end, granule_bytes());
    HolesOfBlock holes{.first = granule_at(begin), .end = granule_at(end)};
    if (begin <= block_end) holes.tail = static_cast<std::uint32_t>(begin - address);
    if (address <= end) holes.head = static_cast<std::uint32_t>(block_end - end);
    if (begin < end) holes.range = holes.end - holes.first;
    return holes;
  }
  /// Whether a granule begins or ends within the block or at one of its ends.
  [[nodiscard]] bool has_end(const Block& block) const {
    return (((block.address - 1) ^ block.end()) >> shift_) != 0;
  }
  void add_holes(Holes& holes, Block& block);
  void remove_holes(Holes& holes, const Block& block);
  void put(Tree& tree, std::uint32_t node, Block& block, std::uint32_t size);
  void clear(std::uint32_t node, const Block& block);
  /// Applies queued changes to the trees: the oldest, or all.
  void apply_oldest() const;
  void apply_changes() const {
    while (queued_ > 0) apply_oldest();
  }
  // The number of a node is twice its granule plus 2, plus 1 for a head.
  static std::uint32_t end_node(GranuleNumber granule) { return 2 * granule + 2; }
  static std::uint32_t head_node(GranuleNumber granule) { return 2 * granule + 3; }
  static GranuleNumber granule_of(std::uint32_t node) { return (node - 2) / 2; }
  static std::uint32_t root(Kind kind, const Holes& holes) {
    return kind == Kind::tail ? holes.tails : kind == Kind::range ? holes.ranges : holes.heads;
  }
  [[nodiscard]] Extent extent(Kind kind, std::uint32_t node) const;
  [[nodiscard]] Treap<Places> treap() const;
  void queue_change(std::uint32_t node);

  /// Bounds the number of queued changes, and so the time of a search.
  static constexpr std::size_t kQueuedMax = 512;
  static constexpr std::uint32_t kLast = 1;  ///< the end of the queue; not a node

  template <class T>
  using Zeroed = std::unique_ptr<T[], decltype(&std::free)>;  // committed as it is written to

  const std::uintptr_t address_;
  const int shift_;
  Zeroed<Node> nodes_;                  ///< a search applies queued changes
  Zeroed<std::uint64_t> begins_range_;  ///< a bit for each granule
  std::size_t granules_seen_ = 0;       ///< whose nodes may have been written
  mutable std::size_t queued_ = 0;
  mutable std::uint32_t first_queued_ = kLast;  ///< the oldest
  mutable std::uint32_t last_queued_ = kLast;
};

}  // namespace berth
