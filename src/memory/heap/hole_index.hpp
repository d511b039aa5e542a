// SPDX-License-Identifier: Apache-2.0
// Where free memory touches the ends of granules, by size: what page remap joins.
//
// A free block has up to three such holes: the free end of a granule whose beginning is in use (tail),
// a range of whole free granules, and the free beginning of a granule whose end is in use (head). Each
// is a node of a treap of its owner's, ordered by size, then address. A granule has room for two nodes:
// one for its tail or the range that begins with it, one for its head. So no operation calls the heap.
// Source: Seidel and Aragon, "Randomized search trees", 1996.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "memory/heap/block.hpp"

namespace berth {

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
class HoleIndex {
 public:
  enum class Kind { tail, range, head };
  /// The holes of one owner.
  struct Holes {
    std::uint32_t tails = 0;  ///< roots
    std::uint32_t ranges = 0;
    std::uint32_t heads = 0;
    std::size_t whole_granules = 0;
  };

  /// Of blocks in that range, which begins with a granule.
  HoleIndex(std::uintptr_t address, std::size_t bytes, std::size_t granule_bytes);
  HoleIndex(const HoleIndex&) = delete;
  HoleIndex& operator=(const HoleIndex&) = delete;

  void add(Holes& holes, Block& block) { change(holes, block, {}, holes_of(block)); }
  void remove(Holes& holes, Block& block) { change(holes, block, holes_of(block), {}); }
  /// To be called before the block has that place and size.
  void move(Holes& holes, Block& block, std::uintptr_t address, std::size_t bytes) {
    change(holes, block, holes_of(block), holes_of(address, bytes));
  }

  /// The smallest hole of `bytes` and more; of those of `bytes` only what lies at `from` or above. No
  /// source where there is none.
  [[nodiscard]] Extent at_least(Kind kind, const Holes& holes, std::size_t bytes,
                                std::uintptr_t from = 0) const;
  [[nodiscard]] Extent largest(Kind kind, const Holes& holes) const;

  /// Which part of a granule is free up to its end, or from its beginning; no source where none is.
  [[nodiscard]] Extent free_end(GranuleNumber granule) const;
  [[nodiscard]] Extent free_beginning(GranuleNumber granule) const;
  /// The range of whole free granules that has it; no source where there is none.
  [[nodiscard]] Extent range_with(GranuleNumber granule) const;

  [[nodiscard]] std::size_t granule_bytes() const { return std::size_t{1} << shift_; }
  [[nodiscard]] std::uintptr_t address_of(GranuleNumber granule) const {
    return address_ + (std::size_t{granule} << shift_);
  }
  [[nodiscard]] GranuleNumber granule_at(std::uintptr_t address) const {
    return static_cast<GranuleNumber>((address - address_) >> shift_);
  }
  /// Whether a free block's holes are here, of it and as they are.
  [[nodiscard]] bool contains(const Holes& holes, const Block& block) const;
  [[nodiscard]] std::size_t bytes_committed() const { return granules_seen_ * 2 * sizeof(Node); }

 private:
  struct Node {
    Block* block;           ///< null where there is no such hole
    std::uint32_t smaller;  ///< subtrees
    std::uint32_t larger;
    std::uint32_t size;  ///< bytes, of a range granules
  };
  /// Of one block.
  struct HolesOfBlock {
    std::uint32_t tail = 0;  ///< its bytes; 0: none
    std::uint32_t range = 0;
    std::uint32_t head = 0;
    GranuleNumber first = 0;  ///< of the range; the tail's is the one before, if there is a tail
    GranuleNumber end = 0;    ///< behind the range: the head's
  };
  struct Halves {
    std::uint32_t low;
    std::uint32_t high;
  };

  [[nodiscard]] HolesOfBlock holes_of(const Block& block) const {
    return holes_of(block.address, block.bytes);
  }
  [[nodiscard]] HolesOfBlock holes_of(std::uintptr_t address, std::size_t bytes) const;
  void change(Holes& holes, Block& block, const HolesOfBlock& from, const HolesOfBlock& to);
  // Nodes are named by twice their granule and 2, and 1 more for a head.
  static std::uint32_t end_node(GranuleNumber granule) { return 2 * granule + 2; }
  static std::uint32_t head_node(GranuleNumber granule) { return 2 * granule + 3; }
  static GranuleNumber granule_of(std::uint32_t node) { return (node - 2) / 2; }
  static std::uint32_t root(Kind kind, const Holes& holes) {
    return kind == Kind::tail ? holes.tails : kind == Kind::range ? holes.ranges : holes.heads;
  }
  [[nodiscard]] Extent extent(Kind kind, std::uint32_t node) const;
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const {
    return nodes_[a].size != nodes_[b].size ? nodes_[a].size < nodes_[b].size : a < b;
  }
  void insert(std::uint32_t& tree, std::uint32_t node, Block& block, std::uint32_t size);
  void erase(std::uint32_t& tree, std::uint32_t node);
  Halves split(std::uint32_t tree, std::uint32_t pivot);
  std::uint32_t merge(std::uint32_t low, std::uint32_t high);
  [[nodiscard]] bool is_in(std::uint32_t tree, std::uint32_t node) const;

  template <class T>
  using Zeroed = std::unique_ptr<T[], decltype(&std::free)>;  // committed as it is written to

  const std::uintptr_t address_;
  const int shift_;
  Zeroed<Node> nodes_;
  Zeroed<std::uint64_t> begins_range_;  ///< a bit for each granule
  std::size_t granules_seen_ = 0;       ///< of which nodes may have been written
};

}  // namespace berth
