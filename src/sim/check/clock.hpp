// SPDX-License-Identifier: Apache-2.0
// A vector clock: a persistent tree, whose nodes are immutable once two clocks share them. So the
// cost of copying and stitching a clock, in memory and time, is proportional to the lanes in which
// the clocks differ, not to the number of lanes. Guarded by sim::mutex.
// Source: Driscoll, Sarnak, Sleator, Tarjan, "Making data structures persistent", 1989.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace berth::sim {

/// A component of a clock, used by one stream at a time.
using Lane = std::uint32_t;

/// The operation number `time` of a lane, from 1.
struct Stamp {
  Lane lane = 0;
  std::uint64_t time = 0;
};

/// The operations of each lane that precede some point.
class Clock {
 public:
  [[nodiscard]] bool includes(Stamp stamp) const { return time_of(stamp.lane) >= stamp.time; }
  /// The latest operation of `lane` that precedes the point; 0 if there is none.
  [[nodiscard]] std::uint64_t time_of(Lane lane) const;
  /// Both return whether the clock has changed.
  bool include(Stamp stamp);
  bool join(const Clock& other);
  /// The same for a clock that already includes `known`: visits only nodes of `other` that `known`
  /// does not share.
  bool join(const Clock& other, const Clock& known);
  /// Calls `visit` with the time of each lane of `within` in which this clock is ahead of `known`.
  /// Visits only nodes that the two do not share.
  using Visit = std::function<void(Stamp)>;
  void for_each_new_time(const Clock& known, const Clock& within, const Visit& visit) const;

  /// The number of nodes of all clocks of the process.
  static std::size_t nodes();
  /// The number of nodes that joins and for_each_new_time() have visited so far.
  static std::uint64_t nodes_joined();

 private:
  struct Node;
  struct Leaf;
  struct Inner;
  using Link = std::shared_ptr<Node>;

  static bool join(Link& mine, const Link& other, const Link& known, unsigned height);
  static bool join_leaf(Link& mine, const Link& other);
  static bool join_inner(Link& mine, const Link& other, const Link& known, unsigned height);
  static void visit_new_times(const Link& link, const Link& known, const Link& within,
                              unsigned height, Lane first, const Visit& visit);
  /// The same clock in a tree of `height`, which must not be lower.
  [[nodiscard]] Clock raised(unsigned height) const;
  /// Grows the tree to lanes of `height`.
  void grow(unsigned height);

  Link root_;            // null: no lane
  unsigned height_ = 0;  // of the root above the leaves
};

}  // namespace berth::sim
