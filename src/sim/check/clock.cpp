// SPDX-License-Identifier: Apache-2.0
#include "sim/check/clock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace berth::sim {
namespace {

constexpr unsigned kBits = 4;
constexpr std::size_t kFanOut = std::size_t{1} << kBits;

std::atomic<std::size_t> live_nodes{0};
std::atomic<std::uint64_t> joined_nodes{0};

std::size_t slot_of(Lane lane, unsigned height) {
  return (lane >> (height * kBits)) & (kFanOut - 1);
}

/// Whether a tree of `height` has a place for `lane`.
bool reaches(Lane lane, unsigned height) {
  return (std::uint64_t{lane} >> ((height + 1) * kBits)) == 0;
}

}  // namespace

struct Clock::Node {
  Node() { live_nodes.fetch_add(1, std::memory_order_relaxed); }
  Node(const Node&) { live_nodes.fetch_add(1, std::memory_order_relaxed); }
  ~Node() { live_nodes.fetch_sub(1, std::memory_order_relaxed); }
  Node& operator=(const Node&) = delete;
};

struct Clock::Leaf : Node {
  static Leaf& of(const Link& link) { return static_cast<Leaf&>(*link); }
  /// The leaf, created or copied if `link` has none of its own. The path to `link` is unshared.
  static Leaf& own(Link& link) {
    if (link == nullptr)
      link = std::make_shared<Leaf>();
    else if (link.use_count() > 1)
      link = std::make_shared<Leaf>(of(link));
    return of(link);
  }
  std::array<std::uint64_t, kFanOut> times{};
};

struct Clock::Inner : Node {
  static Inner& of(const Link& link) { return static_cast<Inner&>(*link); }
  static Inner& own(Link& link) {
    if (link == nullptr)
      link = std::make_shared<Inner>();
    else if (link.use_count() > 1)
      link = std::make_shared<Inner>(of(link));
    return of(link);
  }
  std::array<Link, kFanOut> children;
};

std::size_t Clock::nodes() {
  return live_nodes.load(std::memory_order_relaxed);
}

std::uint64_t Clock::nodes_joined() {
  return joined_nodes.load(std::memory_order_relaxed);
}

std::uint64_t Clock::time_of(Lane lane) const {
  if (!reaches(lane, height_)) return 0;
  const Link* link = &root_;
  for (unsigned height = height_; height != 0 && *link != nullptr; --height)
    link = &Inner::of(*link).children[slot_of(lane, height)];
  return *link == nullptr ? 0 : Leaf::of(*link).times[slot_of(lane, 0)];
}

void Clock::grow(unsigned height) {
  while (height_ < height) {
    ++height_;
    if (root_ == nullptr) continue;
    Link above = std::make_shared<Inner>();
    Inner::of(above).children[0] = std::move(root_);
    root_ = std::move(above);
  }
}

bool Clock::include(Stamp stamp) {
  if (includes(stamp)) return false;
  while (!reaches(stamp.lane, height_)) grow(height_ + 1);
  Link* link = &root_;
  for (unsigned height = height_; height != 0; --height)
    link = &Inner::own(*link).children[slot_of(stamp.lane, height)];
  Leaf::own(*link).times[slot_of(stamp.lane, 0)] = stamp.time;
  return true;
}

Clock Clock::raised(unsigned height) const {
  Clock taller = *this;
  taller.grow(height);
  return taller;
}

bool Clock::join(const Clock& other) {
  return join(other, {});
}

bool Clock::join(const Clock& other, const Clock& known) {
  if (other.root_ == nullptr) return false;
  const unsigned height = std::max({height_, other.height_, known.height_});
  grow(height);
  if (other.height_ == height && (known.height_ == height || known.root_ == nullptr))
    return join(root_, other.root_, known.root_, height);
  return join(root_, other.raised(height).root_, known.raised(height).root_, height);
}

void Clock::for_each_new_time(const Clock& known, const Clock& within, const Visit& visit) const {
  if (within.root_ == nullptr) return;
  const unsigned height = std::max({height_, known.height_, within.height_});
  visit_new_times(raised(height).root_, known.raised(height).root_, within.raised(height).root_,
                  height, 0, visit);
}

void Clock::visit_new_times(const Link& link, const Link& known, const Link& within,
                            unsigned height, Lane first, const Visit& visit) {
  if (link == nullptr || link == known || within == nullptr) return;
  joined_nodes.fetch_add(1, std::memory_order_relaxed);
  static const Link kNothing;
  for (std::size_t i = 0; i < kFanOut; ++i) {
    const Lane lane = first + (static_cast<Lane>(i) << (height * kBits));
    if (height != 0) {
      visit_new_times(Inner::of(link).children[i],
                      known == nullptr ? kNothing : Inner::of(known).children[i],
                      Inner::of(within).children[i], height - 1, lane, visit);
      continue;
    }
    const std::uint64_t time = Leaf::of(link).times[i];
    const std::uint64_t known_time = known == nullptr ? 0 : Leaf::of(known).times[i];
    if (time > known_time && Leaf::of(within).times[i] != 0) visit({lane, time});
  }
}

// If both results are equal, they share one tree.
bool Clock::join(Link& mine, const Link& other, const Link& known, unsigned height) {
  if (other == nullptr || mine == other || other == known) return false;
  if (mine == nullptr) {
    mine = other;
    return true;
  }
  joined_nodes.fetch_add(1, std::memory_order_relaxed);
  return height == 0 ? join_leaf(mine, other) : join_inner(mine, other, known, height);
}

bool Clock::join_leaf(Link& mine, const Link& other) {
  const auto& ours = Leaf::of(mine).times;
  const auto& theirs = Leaf::of(other).times;
  bool has_changes = false;
  bool has_more = false;
  for (std::size_t i = 0; i < kFanOut; ++i) {
    has_changes |= theirs[i] > ours[i];
    has_more |= ours[i] > theirs[i];
  }
  if (!has_more) {
    mine = other;
    return has_changes;
  }
  if (!has_changes) return false;
  Leaf& joined = Leaf::own(mine);
  for (std::size_t i = 0; i < kFanOut; ++i)
    if (theirs[i] > joined.times[i]) joined.times[i] = theirs[i];
  return true;
}

bool Clock::join_inner(Link& mine, const Link& other, const Link& known, unsigned height) {
  static const Link kNothing;
  const auto& theirs = Inner::of(other).children;
  bool has_changes = false;
  bool is_same = true;
  for (std::size_t i = 0; i < kFanOut; ++i) {
    // A second reference while this is shared, so that no other clock's child is modified.
    Link child = Inner::of(mine).children[i];
    if (mine.use_count() == 1) child = std::move(Inner::of(mine).children[i]);
    const Link& known_child = known == nullptr ? kNothing : Inner::of(known).children[i];
    const bool has_changed = join(child, theirs[i], known_child, height - 1);
    has_changes |= has_changed;
    is_same = is_same && child == theirs[i];
    if (has_changed || mine.use_count() == 1) Inner::own(mine).children[i] = std::move(child);
  }
  if (is_same) mine = other;
  return has_changes;
}

}  // namespace berth::sim
