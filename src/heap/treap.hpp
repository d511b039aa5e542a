// SPDX-License-Identifier: Apache-2.0
// A treap whose links are stored in its nodes, so that no operation calls the heap. The priorities
// that balance it are hashes of the nodes and need no storage.
// Source: Seidel and Aragon, "Randomized search trees", 1996.
#pragma once

#include "base/check.hpp"

namespace berth {

/// The operations on a tree, which is the handle of its root; a default handle is null, the empty
/// tree. `Nodes` says how to use a handle:
///
///   Handle                     of a node
///   Link                       a stored handle
///   child(node, is_larger)     the link to one of the two subtrees, as a reference
///   before(a, b)               the order; no two nodes of a tree are equal
///   priority(node)             an integer; a parent has the higher one
///
/// Threads  Guarded by the lock of the index that it belongs to.
template <class Nodes>
class Treap {
 public:
  using Handle = typename Nodes::Handle;
  using Link = typename Nodes::Link;

  explicit Treap(const Nodes& nodes) : nodes_(nodes) {}

  /// Returns the root afterwards.
  [[nodiscard]] Handle insert(Handle root, Handle node) const {
    const auto priority = nodes_.priority(node);
    Link* link = nullptr;
    Handle tree = root;
    while (tree != Handle{} && priority <= nodes_.priority(tree)) {
      BERTH_CHECK(tree != node);
      link = &nodes_.child(tree, nodes_.before(tree, node));
      tree = *link;
    }
    split_below(node, tree);
    if (link == nullptr) return node;
    *link = node;
    return root;
  }
  /// Removes a node of the tree. Returns the root afterwards.
  [[nodiscard]] Handle erase(Handle root, Handle node) const {
    if (root == node) return merge_below(node);
    Link* link = nullptr;
    for (Handle tree = root; tree != node; tree = *link) {
      BERTH_CHECK(tree != Handle{});
      link = &nodes_.child(tree, nodes_.before(tree, node));
    }
    *link = merge_below(node);
    return root;
  }
  /// The first node for which `holds(node)`, which holds for all later nodes as well. Null if there
  /// is none.
  template <class Holds>
  [[nodiscard]] Handle first(Handle root, const Holds& holds) const {
    return search(root, holds, false);
  }
  /// The last node for which `holds(node)`, which holds for all earlier nodes as well. Null if
  /// there is none.
  template <class Holds>
  [[nodiscard]] Handle last(Handle root, const Holds& holds) const {
    return search(root, holds, true);
  }
  /// The first or the last node of all; null in an empty tree.
  [[nodiscard]] Handle first(Handle root) const { return outermost(root, false); }
  [[nodiscard]] Handle last(Handle root) const { return outermost(root, true); }

 private:
  [[nodiscard]] Handle outermost(Handle root, bool is_last) const {
    return search(
        root, [](Handle) { return true; }, is_last);
  }
  template <class Holds>
  [[nodiscard]] Handle search(Handle root, const Holds& holds, bool is_last) const {
    Handle best{};
    for (Handle tree = root; tree != Handle{};) {
      const bool is_candidate = holds(tree);
      if (is_candidate) best = tree;
      tree = nodes_.child(tree, is_candidate == is_last);
    }
    return best;
  }
  /// Splits `tree` into the two trees below `node`.
  void split_below(Handle node, Handle tree) const {
    Link* low = &nodes_.child(node, false);
    Link* high = &nodes_.child(node, true);
    while (tree != Handle{}) {
      const bool is_low = nodes_.before(tree, node);
      Link*& link = is_low ? low : high;
      *link = tree;
      link = &nodes_.child(tree, is_low);
      tree = *link;
    }
    *low = Handle{};
    *high = Handle{};
  }
  /// Merges the two trees below a node into one, which replaces the node.
  [[nodiscard]] Handle merge_below(Handle node) const {
    Handle low = nodes_.child(node, false);
    Handle high = nodes_.child(node, true);
    if (low == Handle{}) return high;
    if (high == Handle{}) return low;
    Handle root{};
    Link* link = nullptr;
    while (low != Handle{} && high != Handle{}) {
      const bool is_low = nodes_.priority(low) > nodes_.priority(high);
      Handle& top = is_low ? low : high;
      if (link == nullptr) {
        root = top;
      } else {
        *link = top;
      }
      link = &nodes_.child(top, is_low);
      top = *link;
    }
    *link = low != Handle{} ? low : high;
    return root;
  }

  const Nodes nodes_;
};

}  // namespace berth
