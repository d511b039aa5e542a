// SPDX-License-Identifier: Apache-2.0
#include "memory/source/whole_segments.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

std::optional<SegmentSource::Growth> WholeSegments::plan_growth(BlockHeap&, std::size_t bytes,
                                                                OwnerId, Stitching) {
  if (bytes > capacity_bytes_) return std::nullopt;
  const bool shares = bytes < segment_bytes_ / 2;
  return Growth{.bytes = align_up(shares ? segment_bytes_ : bytes, rounding_bytes_)};
}

bool WholeSegments::obtain(Growth& growth) {
  if (!take_refused(growth) && !create(growth)) return false;
  BERTH_CHECK(growth.address != 0);
  try {
    notices_.mapped({growth.address, growth.bytes, growth.bytes});
  } catch (...) {
    destroy_or_keep({growth.address, growth.bytes});
    throw;
  }
  return true;
}

void WholeSegments::give_back_growth(const Growth& growth) noexcept {
  notices_.unmapping({growth.address, growth.bytes, growth.bytes});
  destroy_or_keep({growth.address, growth.bytes});
}

DriverRefusal WholeSegments::free_segment(Segment& segment) noexcept {
  notices_.unmapping({segment.address, segment.bytes, segment.bytes});
  return destroy(segment);
}

DriverRefusal WholeSegments::give_back(Range& range) noexcept {
  Segment segment{range.held->address, range.held->bytes};
  const DriverRefusal refusal = free_segment(segment);
  if (!refusal) return {};
  const bool is_as_before = segment.bytes > 0 && segment.is_usable;
  range.state = is_as_before ? Range::State::refused : Range::State::gone;
  if (!is_as_before) keep(segment);
  return refusal;
}

bool WholeSegments::keep(const Range& range) noexcept {
  const Segment segment{range.held->address, range.held->bytes};
  if (notices_.mapped_still({segment.address, segment.bytes, segment.bytes})) return true;
  keep(segment);
  return false;
}

std::size_t WholeSegments::refused_bytes() const {
  const MutexLock lock(refused_mutex_);
  std::size_t bytes = 0;
  for (const Segment& segment : refused_) bytes += segment.bytes;
  return bytes;
}

DriverRefusal WholeSegments::retry_refused() noexcept {
  DriverRefusal last;
  for (const Segment& segment : exchange_refused()) {
    if (const DriverRefusal refusal = destroy_or_keep(segment)) last = refusal;
  }
  return last;
}

DriverRefusal WholeSegments::destroy_or_keep(Segment segment) noexcept {
  const DriverRefusal refusal = destroy(segment);
  if (refusal) keep(segment);
  return refusal;
}

void WholeSegments::keep(const Segment& segment) noexcept {
  if (segment.bytes == 0) return;
  try {
    const MutexLock lock(refused_mutex_);
    refused_.push_back(segment);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the refusal was reported
  }
}

std::vector<WholeSegments::Segment> WholeSegments::exchange_refused() noexcept {
  const MutexLock lock(refused_mutex_);
  return std::exchange(refused_, {});
}

bool WholeSegments::take_refused(Growth& growth) {
  bool is_taken = false;
  for (const Segment& segment : exchange_refused()) {
    if (!is_taken && segment.is_usable && segment.bytes == growth.bytes) {
      growth.address = segment.address;
      is_taken = true;
    } else {
      destroy_or_keep(segment);
    }
  }
  return is_taken;
}

Block* WholeSegments::finish_growth(BlockHeap& heap, const Growth& growth, std::size_t,
                                    OwnerId owner) {
  heap.reserve_owner(owner);  // held blocks must not be lost
  heap.release_held(heap.add_segment(growth.address, growth.bytes), Block::State::free, owner);
  return nullptr;
}

std::vector<Block*> WholeSegments::whole_segments(const BlockHeap& heap) {
  std::vector<Block*> whole;
  heap.free_blocks(kUnowned).for_each([&](Block& block) {
    if (block.is_whole_segment()) whole.push_back(&block);
  });
  return whole;
}

std::vector<SegmentSource::Range> WholeSegments::hold(BlockHeap& heap,
                                                      std::span<Block* const> whole,
                                                      std::size_t bytes) {
  std::vector<Range> ranges;
  ranges.reserve(whole.size());  // detached segments must not be lost
  std::size_t planned = 0;
  for (Block* const block : whole) {
    if (planned >= bytes) break;
    BERTH_CHECK(block->is_whole_segment() && block->owner == kUnowned);
    planned += block->bytes;
    try {
      heap.reserve_blocks(1);
    } catch (...) {
      if (ranges.empty()) throw;
      break;  // fewer may suffice
    }
    Block& held = heap.hold(*block, block->address, block->bytes);
    ranges.push_back({.held = &held, .segment = heap.detach_segment(held)});
  }
  return ranges;
}

std::vector<SegmentSource::Range> WholeSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> whole = whole_segments(heap);
  std::ranges::reverse(whole);
  return hold(heap, whole, bytes);
}

void WholeSegments::finish_return(BlockHeap& heap, Range&& range) {
  heap.remove_segment(std::move(range.segment));
}

void WholeSegments::cancel_return(BlockHeap& heap, Range&& range) {
  heap.attach_segment(std::move(range.segment));
  SegmentSource::cancel_return(heap, std::move(range));
}

void WholeSegments::require_sleep() const {
  throw NotSupported(
      "memory can fall asleep only where virtual memory is managed: segments of cuMemAlloc do not "
      "come back at their addresses");
}

DriverRefusal WholeSegments::sleep(const std::set<std::uintptr_t>&) {
  require_sleep();
  return {};
}

void WholeSegments::give_back_all(const BlockHeap& heap) noexcept {
  for (const auto& [address, first] : heap.segments()) {
    std::size_t bytes = 0;
    for (const Block* block = first; block != nullptr; block = block->next) bytes += block->bytes;
    Segment segment{address, bytes};
    free_segment(segment);
  }
  for (Segment& segment : exchange_refused()) destroy(segment);
}

DeviceSegments::DeviceSegments(DeviceContext& context, std::size_t segment_bytes,
                               std::size_t device_bytes, const MappingNotices& notices)
    : WholeSegments(segment_bytes, 2_MiB, device_bytes, notices), context_(context) {}

bool DeviceSegments::create(Growth& growth) {
  const ContextScope scope(context_);
  const RelaxedCapture relaxed(context_.driver());
  make_host_progress(context_);
  CUdeviceptr address = 0;
  const CUresult result = context_.driver().try_mem_alloc(&address, growth.bytes);
  growth.address = static_cast<std::uintptr_t>(address);
  return context_.driver().succeeded(DriverCall::mem_alloc, result, CUDA_ERROR_OUT_OF_MEMORY);
}

DriverRefusal DeviceSegments::destroy(Segment& segment) noexcept {
  const Driver& driver = context_.driver();
  const ContextScope scope(context_, std::nothrow);
  const RelaxedCapture relaxed(driver);
  make_host_progress(context_);
  return driver.reported(DriverCall::mem_free, driver.try_mem_free(CUdeviceptr{segment.address}));
}

}  // namespace berth
