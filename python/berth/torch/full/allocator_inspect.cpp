// SPDX-License-Identifier: Apache-2.0
// Statistics, snapshots and history.
#include <utility>

#include "allocator.hpp"

namespace berth::torch {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

SegmentInfo info_of(const Segment& segment, c10::DeviceIndex device, History& history) {
  SegmentInfo info;
  info.device = device;
  info.address = segment.address;
  info.total_size = segment.bytes;
  info.is_large = true;
  info.is_expandable = true;
  info.owner_private_pool_id = segment.pool;
  for (const Block& block : segment.blocks) {
    BlockInfo of_block;
    of_block.size = block.bytes;
    of_block.requested_size = block.bytes_requested;
    of_block.allocated = block.is_allocated;
    of_block.active = block.is_allocated || block.is_pending;
    of_block.context_when_allocated = history.context_of(reinterpret_cast<const void*>(block.data));
    info.requested_size += block.bytes_requested;
    info.allocated_size += of_block.allocated ? block.bytes : 0;
    info.active_size += of_block.active ? block.bytes : 0;
    info.blocks.push_back(std::move(of_block));
  }
  return info;
}

}  // namespace

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(c10::DeviceIndex device) {
  require(device);
  return statistics_.of(device);
}

void Allocator::resetAccumulatedStats(c10::DeviceIndex device) {
  require(device);
  statistics_.reset_accumulated(device);
}

void Allocator::resetPeakStats(c10::DeviceIndex device) {
  require(device);
  statistics_.reset_peaks(device);
}

caching::SnapshotInfo Allocator::snapshot(c10::MempoolId_t id, bool include_traces) {
  caching::SnapshotInfo info{};
  info.config_metadata.max_split_size = static_cast<std::size_t>(-1);
  for (int index = 0; index < devices_; ++index) {
    const auto device = static_cast<c10::DeviceIndex>(index);
    for (const Segment& segment : memory_.segments(device))
      if (id == c10::MempoolId_t{} || id == segment.pool)
        info.segments.push_back(info_of(segment, device, history_));
  }
  if (include_traces)
    info.device_traces = history_.entries(devices_);
  else
    info.device_traces.resize(static_cast<std::size_t>(devices_));
  return info;
}

void Allocator::recordHistory(bool enabled, CreateContextFn context, std::size_t entries_max,
                              RecordContext when, bool clear_history,
                              const std::vector<std::string>& skip_actions) {
  if (enabled)
    history_.enable({context, entries_max, when, skip_actions});
  else
    history_.disable();
  if (clear_history) history_.clear();
}

std::shared_ptr<c10::GatheredContext> Allocator::getContextForPointer(const void* data) {
  return history_.context_of(data);
}

void Allocator::attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) {
  const std::lock_guard lock(mutex_);
  out_of_memory_observers_.push_back(std::move(observer));
}

void Allocator::attachOomRejectionObserver(caching::OomRejectionObserver) {
  unsupported("observers of rejections (throw_on_cudamalloc_oom)");
}

void Allocator::attachAllocatorTraceTracker(caching::AllocatorTraceTracker) {
  unsupported("trackers of traces; BERTH's on_map and on_unmap tell of mapped memory");
}

caching::ShareableHandle Allocator::shareIpcHandle(void*) {
  unsupported("tensors that another process opens: CUDA has no such handle for mapped memory");
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string) {
  unsupported("tensors of another process");
}

}  // namespace berth::torch
