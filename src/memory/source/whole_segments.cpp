// SPDX-License-Identifier: Apache-2.0
#include "memory/source/whole_segments.hpp"

#include <algorithm>
#include <limits>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "memory/source/has_memory.hpp"
#include "stream/capture.hpp"

namespace berth {

std::optional<SegmentSource::Growth> WholeSegments::plan_growth(BlockHeap&, std::size_t bytes,
                                                                OwnerId, Joining) {
  if (bytes > capacity_bytes_) return std::nullopt;
  const bool shares = bytes < segment_bytes_ / 2;
  return Growth{.bytes = shares ? segment_bytes_ : align_up(bytes, rounding_bytes_)};
}

Block* WholeSegments::finish_growth(BlockHeap& heap, const Growth& growth, std::size_t,
                                    OwnerId owner) {
  heap.settle(heap.add_segment(growth.address, growth.bytes), Block::State::free, owner);
  return nullptr;
}

std::vector<SegmentSource::Range> WholeSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> whole;
  heap.free_blocks(kUnowned).for_each([&](Block& block) {
    if (block.is_whole_segment()) whole.push_back(&block);
  });
  std::vector<Range> ranges;
  std::size_t planned = 0;
  for (auto it = whole.rbegin(); it != whole.rend() && planned < bytes; ++it) {
    planned += (*it)->bytes;
    ranges.push_back({&heap.hold(**it, (*it)->address, (*it)->bytes)});
  }
  return ranges;
}

void WholeSegments::finish_return(BlockHeap& heap, const Range& range) {
  heap.remove_segment(*range.held);
}

void WholeSegments::require_sleep() const {
  throw NotSupported(
      "memory can fall asleep only where virtual memory is managed: segments of cuMemAlloc do not "
      "come back at their addresses");
}

std::size_t WholeSegments::sleep(const std::set<std::uintptr_t>&) {
  require_sleep();
  return 0;
}

void WholeSegments::give_back_all(const BlockHeap& heap) noexcept {
  for (const auto& [address, first] : heap.segments()) free_segment(address);
}

DeviceSegments::DeviceSegments(DeviceContext& context, std::size_t segment_bytes,
                               std::size_t device_bytes)
    : WholeSegments(segment_bytes, 2_MiB, device_bytes), context_(context) {}

bool DeviceSegments::obtain(Growth& growth) {
  const ContextScope scope(context_);
  RelaxedCapture relaxed(context_.driver());
  relaxed.begin();
  CUdeviceptr address = 0;
  const CUresult result = context_.driver().try_mem_alloc(&address, growth.bytes);
  growth.address = static_cast<std::uintptr_t>(address);
  return has_memory(context_.driver(), DriverCall::mem_alloc, result);
}

bool DeviceSegments::free_segment(std::uintptr_t address) noexcept {
  const ContextScope scope(context_, std::nothrow);
  RelaxedCapture relaxed(context_.driver());
  relaxed.begin();
  return context_.driver().mem_free_or_report(CUdeviceptr{address});
}

PinnedSegments::PinnedSegments(const DeviceRegistry& registry, std::size_t segment_bytes)
    : WholeSegments(segment_bytes, 4_KiB, std::numeric_limits<std::ptrdiff_t>::max()),
      registry_(registry) {}

bool PinnedSegments::obtain(Growth& growth) {
  DeviceContext& context = registry_.context(Device::cuda());
  if (context_ == nullptr) context_ = &context;
  const ContextScope scope(context);
  RelaxedCapture relaxed(context.driver());
  relaxed.begin();
  void* data = nullptr;
  const CUresult result =
      context.driver().try_mem_host_alloc(&data, growth.bytes, unsigned{CU_MEMHOSTALLOC_PORTABLE});
  growth.address = reinterpret_cast<std::uintptr_t>(data);
  return has_memory(context.driver(), DriverCall::mem_host_alloc, result);
}

bool PinnedSegments::free_segment(std::uintptr_t address) noexcept {
  const ContextScope scope(*context_, std::nothrow);
  RelaxedCapture relaxed(context_->driver());
  relaxed.begin();
  return context_->driver().mem_free_host_or_report(reinterpret_cast<void*>(address));
}

}  // namespace berth
