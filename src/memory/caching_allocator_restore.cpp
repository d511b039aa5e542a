// SPDX-License-Identifier: Apache-2.0
// Going back to the live blocks of an earlier moment, for pools of CUDA graphs: every address has
// its memory still, so what was live can be made live again. A plan is made and checked first, so
// that a restore changes either nothing or everything.
#include <algorithm>
#include <span>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/source/mapping_notices.hpp"

namespace berth {
namespace {

using LiveBlock = HeapCheckpoint::Live;

/// The block that a part belongs to; of others, the block itself.
const Block& whole_of(const Block& block) {
  return block.state() == Block::State::part ? *block.part.whole : block;
}

void append(HeapCheckpoint& checkpoint, const Block& block) {
  const std::size_t first = checkpoint.extents.size();
  if (block.is_stitched) {
    for (const Block* part = block.next; part != nullptr; part = part->part.next)
      checkpoint.extents.push_back({part->address, part->bytes});
  } else {
    checkpoint.extents.push_back({block.address, block.bytes});
  }
  checkpoint.blocks.push_back({block.address, block.bytes, block.bytes_requested(), block.owner,
                               first, checkpoint.extents.size() - first});
}

/// Whether the two blocks cannot be told apart, so that a restore keeps the block.
bool is_same(const HeapCheckpoint& a, const LiveBlock& block_a, const HeapCheckpoint& b,
             const LiveBlock& block_b) {
  return block_a.address == block_b.address && block_a.bytes_requested == block_b.bytes_requested &&
         block_a.owner == block_b.owner &&
         std::ranges::equal(a.extents_of(block_a), b.extents_of(block_b));
}

}  // namespace

HeapCheckpoint CachingAllocator::checkpoint() const {
  require_origin();
  MappingNotices::require_outside("checkpoint()");
  const MutexLock slow(heap_.slow_mutex);
  const MutexLock lock(heap_.mutex);
  const SharedHeap::ConsistentView consistent(heap_);
  return live_blocks();
}

HeapCheckpoint CachingAllocator::live_blocks() const {
  HeapCheckpoint checkpoint;
  heap_.blocks.for_each([&](const Block& block) {
    if (block.state() == Block::State::allocated) append(checkpoint, block);
  });
  std::ranges::sort(checkpoint.blocks, {}, &LiveBlock::address);
  return checkpoint;
}

/// What restore() does with the blocks of `now` and `to`, which outlive the plan. All by address.
struct CachingAllocator::RestorePlan {
  RestorePlan(const HeapCheckpoint& now, const HeapCheckpoint& to) {
    auto wanted = to.blocks.begin();
    for (const LiveBlock& live : now.blocks) {
      for (; wanted != to.blocks.end() && wanted->address < live.address; ++wanted)
        begins.push_back(&*wanted);
      if (wanted != to.blocks.end() && is_same(now, live, to, *wanted)) {
        kept.push_back(&live);
        ++wanted;
      } else {
        ends.push_back(&live);
      }
    }
    for (; wanted != to.blocks.end(); ++wanted) begins.push_back(&*wanted);
  }

  std::vector<const LiveBlock*> kept;
  std::vector<const LiveBlock*> ends;
  std::vector<const LiveBlock*> begins;
  std::size_t pieces = 0;  ///< at most, of the free memory of `begins`, and its parts

  [[nodiscard]] bool has_end(std::uintptr_t address) const {
    return std::ranges::binary_search(ends, address, {},
                                      [](const LiveBlock* block) { return block->address; });
  }
};

CachingAllocator::Restored CachingAllocator::restore(const HeapCheckpoint& to) {
  require_origin();
  MappingNotices::require_outside("restore()");
  const MutexLock slow(heap_.slow_mutex);
  const MutexLock lock(heap_.mutex);
  heap_.require_awake();
  using View = SharedHeap::ConsistentView;
  const View consistent(heap_, View::Caches::emptied);
  const HeapCheckpoint now = live_blocks();
  RestorePlan plan(now, to);
  for (const LiveBlock* block : plan.ends) require_unused(*block);
  for (const LiveBlock* block : plan.begins) {
    require_restorable(to, *block, plan);
    heap_.blocks.reserve_owner(block->owner);
  }
  Restored result;
  for (const LiveBlock* block : plan.kept)
    result.kept.push_back(reinterpret_cast<void*>(block->address));
  result.freed.reserve(plan.ends.size());
  result.allocated.reserve(plan.begins.size());
  heap_.blocks.reserve_restored(plan.begins.size(), plan.pieces);
  std::vector<Block*> parts;
  parts.reserve(plan.pieces);

  Ledger& ledger = heap_.ledger_of(nullptr);
  for (const LiveBlock* block : plan.ends) {
    void* const data = reinterpret_cast<void*>(block->address);
    ledger.freed(block->bytes_requested, block->bytes);
    --ledger.blocks_through_heap;
    heap_.release(*heap_.blocks.find(data));
    result.freed.push_back(data);
  }
  for (const LiveBlock* wanted : plan.begins) {
    const Block& block = begin_again(to, *wanted, parts);
    BERTH_CHECK(block.address == wanted->address && block.bytes == wanted->bytes);
    ledger.allocated(wanted->bytes_requested, block.bytes);
    ++ledger.blocks_through_heap;
    ++heap_.counters.allocations_fitted;
    result.allocated.push_back(block.data());
  }
  return result;
}

void CachingAllocator::require_unused(const LiveBlock& live) const {
  const Block& block = *heap_.blocks.find(reinterpret_cast<const void*>(live.address));
  if (!order_.uses().any(block)) return;
  throw InvalidArgument(format_text(
      "{} cannot be restored: the block at {:#x} was recorded for another stream or a graph, so it "
      "cannot end now; accepted: free it first",
      name(), live.address));
}

void CachingAllocator::require_restorable(const HeapCheckpoint& to, const LiveBlock& live,
                                          RestorePlan& plan) {
  const auto refuse = [&](const char* reason) {
    throw InvalidArgument(format_text("{} cannot be restored: the block of {} at {:#x} {}", name(),
                                      format_bytes(live.bytes_requested), live.address, reason));
  };
  if (!heap_.streams.contains(live.owner) || heap_.streams.entry(live.owner).retired)
    refuse("is ordered on a stream that has been destroyed");
  for (const HeapExtent& extent : to.extents_of(live)) {
    for (const Block* block = heap_.blocks.tile_at(extent.address);; block = block->next) {
      if (block == nullptr) refuse("was in memory that has been returned to the driver");
      const Block& whole = whole_of(*block);
      const bool is_free =
          block->state() == Block::State::free ||
          (whole.state() == Block::State::allocated && plan.has_end(whole.address));
      if (!is_free) refuse("was in memory that is still used, or has been returned to the driver");
      ++plan.pieces;
      if (block->end() >= extent.end()) break;
    }
  }
  if (live.extent_count > 1 && reserve_.address_of_stitched(to.extents_of(live)) != live.address)
    refuse("consisted of parts whose mapping has ended");
}

Block& CachingAllocator::begin_again(const HeapCheckpoint& to, const LiveBlock& live,
                                     std::vector<Block*>& parts) {
  const auto free_at = [&](const HeapExtent& extent) BERTH_UNDER_LOCK -> Block& {
    return heap_.blocks.take_over(extent.address, extent.bytes, live.owner);
  };
  const std::span<const HeapExtent> extents = to.extents_of(live);
  if (extents.size() == 1) {
    return heap_.blocks.take({&free_at(extents.front()), extents.front().address}, live.bytes,
                             live.bytes_requested, live.owner);
  }
  parts.clear();
  for (const HeapExtent& extent : extents)
    parts.push_back(&heap_.blocks.hold(free_at(extent), extent.address, extent.bytes));
  return heap_.blocks.stitch(parts, live.address, live.bytes_requested, live.owner);
}

}  // namespace berth
