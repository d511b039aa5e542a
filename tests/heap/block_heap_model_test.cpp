// SPDX-License-Identifier: Apache-2.0
// The block heap under random operations, compared after each with a model that knows nothing of
// blocks: one cell for each 512 bytes of each segment. What blocks there must be follows from the
// cells: runs of cells that agree. Stitched blocks lie at addresses of their own, beside the
// segments.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_heap.hpp"
#include "model/random_program.hpp"

namespace block_heap_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kCellBytes = 512;
constexpr std::uintptr_t kBase = 0x7000'0000;
constexpr std::size_t kSlotCells = 96;  ///< segments lie in slots of this size, and may touch
constexpr std::size_t kSlots = 6;
constexpr std::uintptr_t kWindows = 0x9000'0000;
constexpr OwnerId kOwners = 4;  ///< kUnowned included

struct Cell {
  Block::State state = Block::State::held;
  OwnerId owner = kUnowned;
  std::uint64_t freed_at = 0;
  int part = 0;  ///< tells apart neighbors that are allocated, pending or held
};

struct Run {
  std::uintptr_t address;
  std::size_t bytes;
  Cell cell;
};

bool is_one_block(const Cell& a, const Cell& b) {
  if (a.state != b.state) return false;
  if (a.state == Block::State::unmapped) return true;
  return a.state == Block::State::free ? a.owner == b.owner : a.part == b.part;
}

class Model {
 public:
  std::map<std::uintptr_t, std::vector<Cell>> segments;

  [[nodiscard]] std::vector<Run> runs() const {
    std::vector<Run> runs;
    for (const auto& [address, cells] : segments) {
      for (std::size_t index = 0; index < cells.size(); ++index) {
        if (index > 0 && is_one_block(cells[index - 1], cells[index])) {
          runs.back().bytes += kCellBytes;
        } else {
          runs.push_back({address + index * kCellBytes, kCellBytes, cells[index]});
        }
      }
    }
    return runs;
  }

  template <class Change>
  void change(std::uintptr_t address, std::size_t bytes, Change&& change) {
    auto& [base, cells] = *std::prev(segments.upper_bound(address));
    const std::size_t first = (address - base) / kCellBytes;
    for (std::size_t index = first; index < first + bytes / kCellBytes; ++index)
      change(cells.at(index));
  }
  /// What has just become one block was freed when its last part was.
  void stitch() {
    for (const Run& run : runs()) {
      if (run.cell.state != Block::State::free && run.cell.state != Block::State::unmapped)
        continue;
      std::uint64_t latest = 0;
      change(run.address, run.bytes, [&](Cell& c) { latest = std::max(latest, c.freed_at); });
      change(run.address, run.bytes, [&](Cell& c) { c.freed_at = latest; });
    }
  }
  void set(std::uintptr_t address, std::size_t bytes, Block::State state, OwnerId owner) {
    const int part = ++parts_;
    change(address, bytes, [&](Cell& cell) { cell = {state, owner, cell.freed_at, part}; });
    stitch();
  }

  /// Where best fit puts a block: null where nothing fits.
  [[nodiscard]] std::uintptr_t best_fit(std::size_t bytes, OwnerId owner) const {
    const Run* best = nullptr;
    const std::vector<Run> all = runs();
    const auto better = [&](const Run& a, const Run& b) {
      if (a.cell.owner != b.cell.owner) return a.cell.owner == owner;
      if (a.bytes != b.bytes) return a.bytes < b.bytes;
      return a.address < b.address;
    };
    for (const Run& run : all) {
      if (run.cell.state != Block::State::free || run.bytes < bytes) continue;
      if (run.cell.owner != owner && run.cell.owner != kUnowned) continue;
      if (best == nullptr || better(run, *best)) best = &run;
    }
    return best == nullptr ? 0 : best->address;
  }

 private:
  int parts_ = 0;
};

/// A heap and the model of it, taken through the same steps.
class Pair final : public RandomProgram {
 public:
  // A check files all free blocks in their index; between checks those that changed last are not.
  explicit Pair(std::uint64_t seed)
      : RandomProgram(seed), check_interval_(seed % 2 == 0 ? 1 : 16) {}

  void step() {
    static constexpr Operation<Pair> kOperations[] = {
        {1, "add a segment", &Pair::add_segment},
        {3, "take", &Pair::take},
        {1, "set pending", &Pair::set_pending},
        {2, "release", &Pair::release},
        {1, "transfer", &Pair::transfer},
        {2, "hold", &Pair::hold},
        {1, "settle", &Pair::settle},
        {1, "stitch", &Pair::stitch},
        {1, "remove a segment", &Pair::remove_segment},
    };
    do_one_of(kOperations);
    if (steps_++ % check_interval_ == 0) check();
  }

  void check() {
    heap_.validate();
    std::vector<const Block*> blocks;
    for (const auto& [address, first] : heap_.segments()) {
      REQUIRE(model_.segments.count(address) == 1);
      for (const Block* block = first; block != nullptr; block = block->next)
        blocks.push_back(block);
    }
    const std::vector<Run> runs = model_.runs();
    REQUIRE(heap_.segments().size() == model_.segments.size());
    REQUIRE(blocks.size() == runs.size());
    std::size_t free_bytes = 0;
    std::size_t free_count = 0;
    std::size_t largest = 0;
    std::size_t allocated = 0;
    std::set<OwnerId> owners;
    std::set<std::uintptr_t> unmapped;
    for (std::size_t index = 0; index < runs.size(); ++index) {
      const Run& run = runs[index];
      const Block& block = *blocks[index];
      const bool cached = block.state() == Block::State::cached;
      const Block::State state = cached ? Block::State::allocated : block.state();
      const bool in_place =
          block.address == run.address && block.bytes == run.bytes && state == run.cell.state;
      REQUIRE(in_place);
      const bool covered =
          heap_.find_covering(pointer(run.address)) == &block &&
          heap_.find_covering(pointer(run.address + run.bytes - 1)) == &block &&
          heap_.covers(pointer(run.address)) == (run.cell.state != Block::State::unmapped);
      REQUIRE(covered);
      const bool is_live = run.cell.state == Block::State::allocated;
      const bool found =
          heap_.find(pointer(run.address)) == (is_live && !cached ? &block : nullptr) &&
          heap_.find(pointer(run.address + kCellBytes / 2)) == nullptr;
      REQUIRE(found);
      if (is_live || run.cell.state == Block::State::pending ||
          run.cell.state == Block::State::part)
        REQUIRE(block.owner == run.cell.owner);
      if (is_live) ++allocated;
      if (run.cell.state == Block::State::unmapped) unmapped.insert(run.address);
      if (run.cell.state != Block::State::free) continue;
      REQUIRE(block.owner == run.cell.owner);
      REQUIRE(block.freed_at == run.cell.freed_at);
      ++free_count;
      free_bytes += run.bytes;
      largest = std::max(largest, run.bytes);
      if (run.cell.owner != kUnowned) owners.insert(run.cell.owner);
    }
    allocated += check_joined();
    REQUIRE(heap_.free_bytes() == free_bytes);
    REQUIRE(heap_.free_count() == free_count);
    REQUIRE(heap_.largest_free_bytes() == largest);
    REQUIRE(heap_.in_use_count() == allocated);
    REQUIRE(heap_.owners_with_free_blocks() == std::vector(owners.begin(), owners.end()));
    REQUIRE(heap_.unmapped().size() == unmapped.size());
    for (const auto& [address, block] : heap_.unmapped()) REQUIRE(unmapped.count(address) == 1);
  }

  /// Ends with everything free, removed, and nothing left.
  void finish() {
    while (!pending_.empty() || !live_.empty()) {
      release();
      check();
    }
    while (!held_.empty()) {
      settle();
      check();
    }
    for (const Run& run : model_.runs()) hold_part(run, run.address, run.bytes);
    while (!held_.empty()) {
      settle_as(Block::State::free, kUnowned);
      check();
    }
    while (!model_.segments.empty()) {
      const Run run = model_.runs().front();
      hold_part(run, run.address, run.bytes);
      remove_segment();
      check();
    }
  }

 private:
  static const void* pointer(std::uintptr_t address) {
    return reinterpret_cast<const void*>(address);
  }
  std::size_t below(std::size_t bound) { return random_.below(bound); }
  OwnerId any_owner() { return static_cast<OwnerId>(below(kOwners)); }

  template <class T>
  T take_out(std::vector<T>& from) {
    std::swap(from[below(from.size())], from.back());
    const T out = from.back();
    from.pop_back();
    return out;
  }

  void add_segment() {
    const std::uintptr_t address = kBase + below(kSlots) * kSlotCells * kCellBytes;
    if (model_.segments.count(address) == 1) return;
    const std::size_t cells = below(3) == 0 ? 1 + below(kSlotCells) : kSlotCells;
    model_.segments.emplace(address, std::vector<Cell>(cells));
    held_.push_back(&heap_.add_segment(address, cells * kCellBytes));
    model_.set(address, cells * kCellBytes, Block::State::held, kUnowned);
    settle_as(below(3) == 0 ? Block::State::unmapped : Block::State::free, any_owner());
  }

  void take() {
    const std::size_t bytes = kCellBytes * (1 + below(below(4) == 0 ? 40 : 6));
    const std::size_t bytes_requested = bytes - below(kCellBytes);
    const OwnerId owner = any_owner();
    const std::uintptr_t expected = model_.best_fit(bytes, owner);
    Block* block = heap_.take(bytes, bytes_requested, owner);
    REQUIRE((block == nullptr ? std::uintptr_t{0} : std::uintptr_t{block->address}) == expected);
    if (block == nullptr) return;
    REQUIRE(block->bytes == bytes);
    REQUIRE(block->bytes_requested() == bytes_requested);
    REQUIRE(block->uses.list == 0);
    REQUIRE(block->uses.marks_left == 0);
    model_.set(block->address, bytes, Block::State::allocated, owner);
    if (below(2) == 0) cache(*block);
    live_.push_back(block);
  }

  /// As a thread's cache would keep it, or have given it out again.
  void cache(Block& block) {
    block.set_state(Block::State::cached);
    if (below(2) == 0) return;
    block.set_state(Block::State::allocated);
    block.set_bytes_requested(block.bytes - below(kCellBytes));
  }

  /// Some of what is held becomes one block, in any order.
  void stitch() {
    const std::size_t count = std::min<std::size_t>(1 + below(4), held_.size());
    if (count == 0) return;
    const OwnerId owner = any_owner();
    std::vector<Block*> parts;
    std::size_t bytes = 0;
    for (std::size_t index = 0; index < count; ++index) {
      parts.push_back(take_out(held_));
      bytes += parts.back()->bytes;
    }
    const std::size_t bytes_requested = bytes - below(kCellBytes);
    Block& whole = heap_.stitch(parts, next_window_, bytes_requested, owner);
    REQUIRE(whole.address == next_window_);
    REQUIRE(whole.bytes == bytes);
    REQUIRE(whole.bytes_requested() == bytes_requested);
    next_window_ += bytes;
    for (const Block* part : parts) {
      joined_[&whole].push_back({part->address, part->bytes});
      model_.set(part->address, part->bytes, Block::State::part, owner);
    }
    if (below(2) == 0) cache(whole);
    live_.push_back(&whole);
  }

  /// Returns how many stitched blocks are in use.
  std::size_t check_joined() const {
    std::size_t in_use = 0;
    std::size_t seen = 0;
    heap_.for_each([&](const Block& block) { seen += joined_.count(&block); });
    REQUIRE(seen == joined_.size());
    for (const auto& [whole, parts] : joined_) {
      const bool is_pending = whole->state() == Block::State::pending;
      const bool is_allocated = whole->state() == Block::State::allocated;
      if (!is_pending) ++in_use;
      REQUIRE(heap_.find(pointer(whole->address)) == (is_allocated ? whole : nullptr));
      REQUIRE(heap_.find_covering(pointer(whole->address)) == whole);
      REQUIRE(heap_.find_covering(pointer(whole->end() - 1)) == whole);
      REQUIRE(heap_.covers(pointer(whole->end() - 1)));
      REQUIRE(heap_.find_covering(pointer(whole->end())) != whole);
      std::size_t index = 0;
      for (const Block* part = whole->next; part != nullptr; part = part->part.next) {
        REQUIRE(index < parts.size());
        REQUIRE(part->address == parts[index].address);
        REQUIRE(part->bytes == parts[index].bytes);
        REQUIRE(part->part.whole == whole);
        ++index;
      }
      REQUIRE(index == parts.size());
    }
    return in_use;
  }

  void set_pending() {
    if (live_.empty()) return;
    Block* block = take_out(live_);
    heap_.set_pending(*block);
    block->uses.marks_left = 1;
    if (joined_.count(block) == 0)
      model_.set(block->address, block->bytes, Block::State::pending, block->owner);
    pending_.push_back(block);
  }

  void release() {
    const bool from_pending = live_.empty() || (!pending_.empty() && below(2) == 0);
    std::vector<Block*>& from = from_pending ? pending_ : live_;
    if (from.empty()) return;
    Block* block = take_out(from);
    block->uses.marks_left = 0;
    const OwnerId owner = below(4) == 0 ? any_owner() : block->owner;
    std::vector<Range> ranges{{block->address, block->bytes}};
    if (const auto joined = joined_.find(block); joined != joined_.end()) {
      ranges = joined->second;
      joined_.erase(joined);
    }
    const std::uint64_t serial = heap_.serial();
    heap_.release(*block, owner);
    REQUIRE(heap_.serial() == serial + 1);
    for (const Range& range : ranges) {
      model_.change(range.address, range.bytes, [&](Cell& cell) { cell.freed_at = serial + 1; });
      model_.set(range.address, range.bytes, Block::State::free, owner);
    }
  }

  void transfer() {
    const OwnerId from = any_owner();
    const OwnerId to = (from + 1 + below(kOwners - 1)) % kOwners;
    const std::uint64_t span = std::min<std::uint64_t>(heap_.serial(), 12);
    const std::uint64_t serial = heap_.serial() - below(span + 1);
    std::size_t expected = 0;
    std::vector<Run> moved;
    for (const Run& run : model_.runs()) {
      if (run.cell.state == Block::State::free && run.cell.owner == from &&
          run.cell.freed_at <= serial) {
        moved.push_back(run);
      }
    }
    for (const Run& run : moved) {
      ++expected;
      model_.change(run.address, run.bytes, [&](Cell& cell) { cell.owner = to; });
    }
    model_.stitch();
    REQUIRE(heap_.transfer(from, to, serial) == expected);
  }

  void hold() {
    std::vector<Run> runs = model_.runs();
    std::erase_if(runs, [](const Run& run) {
      return run.cell.state != Block::State::free && run.cell.state != Block::State::unmapped;
    });
    if (runs.empty()) return;
    const Run& run = runs[below(runs.size())];
    const std::size_t cells = run.bytes / kCellBytes;
    const std::size_t skipped = below(2) == 0 ? 0 : below(cells);
    const std::size_t held = below(2) == 0 ? cells - skipped : 1 + below(cells - skipped);
    hold_part(run, run.address + skipped * kCellBytes, held * kCellBytes);
  }

  void hold_part(const Run& run, std::uintptr_t address, std::size_t bytes) {
    auto* block = const_cast<Block*>(heap_.find_covering(pointer(run.address)));
    Block& held = heap_.hold(*block, address, bytes);
    REQUIRE(held.address == address);
    REQUIRE(held.bytes == bytes);
    model_.set(address, bytes, Block::State::held, kUnowned);
    held_.push_back(&held);
  }

  void settle() {
    settle_as(below(3) == 0 ? Block::State::unmapped : Block::State::free, any_owner());
  }

  void settle_as(Block::State state, OwnerId owner) {
    if (held_.empty()) return;
    if (state == Block::State::unmapped) owner = kUnowned;
    Block* block = take_out(held_);
    const std::uintptr_t address = block->address;
    const std::size_t bytes = block->bytes;
    heap_.release_held(*block, state, owner);
    model_.set(address, bytes, state, owner);
  }

  void remove_segment() {
    for (std::size_t index = 0; index < held_.size(); ++index) {
      Block* block = held_[index];
      if (!block->is_whole_segment()) continue;
      auto detached = heap_.detach_segment(*block);
      if (random_.one_in(4)) {
        heap_.attach_segment(std::move(detached));
        heap_.validate();
        detached = heap_.detach_segment(*block);
      }
      REQUIRE(model_.segments.erase(block->address) == 1);
      heap_.remove_segment(std::move(detached));
      held_.erase(held_.begin() + std::ptrdiff_t(index));
      return;
    }
  }

  const std::size_t check_interval_;
  std::size_t steps_ = 0;
  BlockHeap heap_;
  Model model_;
  std::vector<Block*> live_;
  std::vector<Block*> pending_;
  std::vector<Block*> held_;
  struct Range {
    std::uintptr_t address;
    std::size_t bytes;
  };
  std::map<const Block*, std::vector<Range>> joined_;  ///< the parts of stitched blocks
  std::uintptr_t next_window_ = kWindows;
};

}  // namespace

TEST_CASE("random operations leave the blocks, indices and sums that the model has") {
  for_each_seed(
      [](std::uint64_t seed) {
        Pair pair(seed);
        run_to_the_end(pair, operations(1200));
      },
      8);
}

}  // namespace block_heap_model_test
