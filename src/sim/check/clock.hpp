// SPDX-License-Identifier: Apache-2.0
// A vector clock. A copy shares what it has in common with the original: a tree whose nodes are not
// written once two clocks have them. So a clock that differs from another in a few lanes costs
// those lanes, in memory, to copy and to join, however many lanes there are. Guarded by sim::mutex.
// Source: Driscoll, Sarnak, Sleator, Tarjan, "Making data structures persistent", 1989.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace berth::sim {

/// A place in a clock: one stream at a time.
using Lane = std::uint32_t;

/// The operation number `time` of a lane, from 1.
struct Stamp {
  Lane lane = 0;
  std::uint64_t time = 0;
};

/// Which operations of each lane come before some moment.
class Clock {
 public:
  [[nodiscard]] bool includes(Stamp stamp) const { return time_of(stamp.lane) >= stamp.time; }
  /// The latest operation of `lane` that comes before; 0: none.
  [[nodiscard]] std::uint64_t time_of(Lane lane) const;
  /// Both say whether that was news.
  bool include(Stamp stamp);
  bool join(const Clock& other);
  /// The same, where this has `known` already: costs what `other` does not share with that.
  bool join(const Clock& other, const Clock& known);
  /// Calls `visit` with the time of each lane in which this has more than `known`, of those lanes
  /// that `within` has. Costs what the two do not share.
  using Visit = std::function<void(Stamp)>;
  void for_each_news(const Clock& known, const Clock& within, const Visit& visit) const;

  /// The nodes of all clocks of the process.
  static std::size_t nodes();
  /// How many of them joins, and looks for news, have visited so far.
  static std::uint64_t nodes_joined();

 private:
  struct Node;
  struct Leaf;
  struct Inner;
  using Link = std::shared_ptr<Node>;

  static bool join(Link& mine, const Link& other, const Link& known, unsigned height);
  static bool join_leaf(Link& mine, const Link& other);
  static bool join_inner(Link& mine, const Link& other, const Link& known, unsigned height);
  static void visit_news(const Link& link, const Link& known, const Link& within, unsigned height,
                         Lane first, const Visit& visit);
  /// The same clock in a tree of `height`, which is no lower.
  [[nodiscard]] Clock raised(unsigned height) const;
  /// Makes room above: the tree reaches to lanes of `height`.
  void grow(unsigned height);

  Link root_;            // null: no lane
  unsigned height_ = 0;  // of the root above the leaves
};

}  // namespace berth::sim
