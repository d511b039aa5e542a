// SPDX-License-Identifier: Apache-2.0
#include "heap/granule_index.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"
#include "heap/treap.hpp"

namespace berth {
namespace {

template <class T>
T* zeroed(std::size_t count) {
  void* const data = std::calloc(count, sizeof(T));
  if (data == nullptr) throw std::bad_alloc();
  return static_cast<T*>(data);
}

}  // namespace

/// Nodes by their place, not by the changes that are queued.
struct GranuleIndex::Places {
  using Handle = std::uint32_t;
  using Link = std::uint32_t;

  [[nodiscard]] Link& child(std::uint32_t node, bool is_larger) const {
    return is_larger ? nodes[node].larger : nodes[node].smaller;
  }
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t bytes = nodes[a].place_size;
    return bytes != nodes[b].place_size ? bytes < nodes[b].place_size : a < b;
  }
  static std::uint32_t priority(std::uint32_t node) {
    return static_cast<std::uint32_t>(fibonacci_hash(node, 32));
  }

  Node* nodes;
};

Treap<GranuleIndex::Places> GranuleIndex::treap() const {
  return Treap<Places>(Places{nodes_.get()});
}

GranuleIndex::GranuleIndex(std::uintptr_t address, std::size_t bytes, std::size_t granule_bytes)
    : address_(address),
      shift_(std::countr_zero(granule_bytes)),
      nodes_(zeroed<Node>(2 * (bytes >> shift_) + 4), &std::free),
      begins_range_(zeroed<std::uint64_t>((bytes >> shift_) / 64 + 1), &std::free) {
  BERTH_CHECK(address % granule_bytes == 0 && granule_bytes <= ~std::uint32_t{0});
}

void GranuleIndex::add_holes(Holes& holes, Block& block) {
  const HolesOfBlock own = holes_of(block);
  if (own.tail > 0) put(holes.tails, end_node(own.first - 1), block, own.tail);
  if (own.head > 0) put(holes.heads, head_node(own.end), block, own.head);
  if (own.range == 0) return;
  put(holes.ranges, end_node(own.first), block, own.range);
  begins_range_[own.first / 64] |= std::uint64_t{1} << (own.first % 64);
  holes.whole_granules += own.range;
}

void GranuleIndex::remove_holes(Holes& holes, const Block& block) {
  const HolesOfBlock own = holes_of(block);
  if (own.tail > 0) clear(end_node(own.first - 1), block);
  if (own.head > 0) clear(head_node(own.end), block);
  if (own.range == 0) return;
  clear(end_node(own.first), block);
  begins_range_[own.first / 64] &= ~(std::uint64_t{1} << (own.first % 64));
  holes.whole_granules -= own.range;
}

void GranuleIndex::put(Tree& tree, std::uint32_t node, Block& block, std::uint32_t size) {
  Node& hole = nodes_[node];
  BERTH_CHECK(hole.block == nullptr);
  hole.block = &block;
  hole.tree = &tree;
  hole.size = size;
  granules_seen_ = std::max<std::size_t>(granules_seen_, granule_of(node) + std::size_t{1});
  queue_change(node);
}

void GranuleIndex::clear(std::uint32_t node, const Block& block) {
  BERTH_CHECK(nodes_[node].block == &block);
  nodes_[node].block = nullptr;
  queue_change(node);
}

void GranuleIndex::queue_change(std::uint32_t node) {
  if (nodes_[node].next_queued != 0) return;
  nodes_[node].next_queued = kLast;
  (queued_ == 0 ? first_queued_ : nodes_[last_queued_].next_queued) = node;
  last_queued_ = node;
  if (++queued_ > kQueuedMax) apply_oldest();
}

void GranuleIndex::apply_oldest() const {
  const std::uint32_t node = first_queued_;
  Node& hole = nodes_[node];
  first_queued_ = std::exchange(hole.next_queued, 0);
  --queued_;
  if (hole.is_in_place()) return;
  if (hole.place != nullptr) *hole.place = treap().erase(*hole.place, node);
  hole.place = hole.block == nullptr ? nullptr : hole.tree;
  hole.place_size = hole.size;
  if (hole.place != nullptr) *hole.place = treap().insert(*hole.place, node);
}

Extent GranuleIndex::extent(Kind kind, std::uint32_t node) const {
  if (node == 0) return {};
  const Node& hole = nodes_[node];
  const std::uintptr_t address = address_of(granule_of(node));
  switch (kind) {
    case Kind::tail:
      return {hole.block, address + granule_bytes() - hole.size, hole.size};
    case Kind::range:
      return {hole.block, address, std::size_t{hole.size} << shift_};
    case Kind::head:
      return {hole.block, address, hole.size};
  }
  BERTH_CHECK(false);
}

Extent GranuleIndex::at_least(Kind kind, const Holes& holes, std::size_t bytes,
                              std::uintptr_t from) const {
  apply_changes();
  const std::size_t size = kind == Kind::range ? align_up(bytes, granule_bytes()) >> shift_ : bytes;
  const std::uint32_t best = treap().first(root(kind, holes), [&](std::uint32_t node) {
    return nodes_[node].size != size ? nodes_[node].size > size
                                     : address_of(granule_of(node)) >= from;
  });
  return extent(kind, best);
}

Extent GranuleIndex::largest(Kind kind, const Holes& holes) const {
  apply_changes();
  const std::uint32_t node = treap().last(root(kind, holes));
  return extent(kind, node);
}

Extent GranuleIndex::range_with(GranuleNumber granule) const {
  std::size_t word = granule / 64;
  std::uint64_t bits = begins_range_[word] & (~std::uint64_t{0} >> (63 - granule % 64));
  while (bits == 0 && word > 0) bits = begins_range_[--word];
  if (bits == 0) return {};
  const auto first = static_cast<GranuleNumber>(word * 64 + 63) -
                     static_cast<GranuleNumber>(std::countl_zero(bits));
  const std::uint32_t node = end_node(first);
  return granule - first < nodes_[node].size ? extent(Kind::range, node) : Extent{};
}

bool GranuleIndex::contains(const Holes& holes, const Block& block) const {
  const HolesOfBlock own = holes_of(block);
  const auto has = [&](const Tree& tree, std::uint32_t number, std::uint32_t size) {
    if (size == 0) return true;
    const Node& node = nodes_[number];
    if (node.block != &block || node.tree != &tree || node.size != size) return false;
    if (node.next_queued != 0) return true;
    const Places places{nodes_.get()};
    const auto is_at_or_after = [&](std::uint32_t other) { return !places.before(other, number); };
    return node.is_in_place() && treap().first(tree, is_at_or_after) == number;
  };
  return has(holes.tails, end_node(own.first - 1), own.tail) &&
         has(holes.ranges, end_node(own.first), own.range) &&
         has(holes.heads, head_node(own.end), own.head);
}

}  // namespace berth
