// SPDX-License-Identifier: Apache-2.0
#include "berth/device_allocator.hpp"

#include "base/fork.hpp"
#include "memory/pool/device_pools.hpp"
#include "memory/try_result.hpp"

namespace berth {

DeviceAllocator::DeviceAllocator(DeviceContext& context, EventPool& events,
                                 DeviceAllocatorOptions options)
    : pools_(std::make_unique<DevicePools>(context, events, std::move(options))) {}

DeviceAllocator::~DeviceAllocator() {
  if (!pools_->is_usable()) keep_until_exit(std::move(pools_));  // a fork may have torn the books
}

void* DeviceAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  return pools_->allocate(bytes, stream);
}

Result<Allocation> DeviceAllocator::try_allocate(std::size_t bytes, StreamRef stream) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes, stream); });
}

void DeviceAllocator::deallocate(void* data) {
  pools_->deallocate(data);
}

void DeviceAllocator::record_stream(void* data, StreamRef stream) {
  pools_->record_stream(data, stream);
}

void DeviceAllocator::record_use(void* data, StreamRef stream) {
  pools_->record_use(data, stream);
}

std::size_t DeviceAllocator::trim(std::size_t bytes_to_keep) {
  return pools_->trim(bytes_to_keep);
}

std::size_t DeviceAllocator::release_unused(std::chrono::nanoseconds age) {
  return pools_->release_unused(age);
}

void DeviceAllocator::retire_stream(StreamRef stream) noexcept {
  pools_->retire_stream(stream);
}

void DeviceAllocator::set_limits(const MemoryLimits& limits) {
  pools_->set_limits(limits);
}

bool DeviceAllocator::owns(const void* data) const noexcept {
  return pools_->owns(data);
}

Device DeviceAllocator::device() const noexcept {
  return pools_->own().device();
}

std::optional<MemoryBlock> DeviceAllocator::find(const void* data) {
  std::optional<MemoryBlock> found = pools_->find(data);
  if (found) found->allocator = this;
  return found;
}

bool DeviceAllocator::is_for_graphs(const void* data) const noexcept {
  return pools_->is_for_graphs(data);
}

MemoryPool DeviceAllocator::create_pool(const MemoryPoolOptions& options) {
  return {*pools_, pools_->open(options)};
}

std::vector<MemorySnapshot> DeviceAllocator::pool_snapshots() const {
  std::vector<MemorySnapshot> snapshots;
  for (const auto& pool : pools_->private_pools()) snapshots.push_back(pool->snapshot());
  return snapshots;
}

std::size_t DeviceAllocator::sleep(std::string_view name, SleepContent content) {
  return pools_->sleep(name, content);
}

void DeviceAllocator::wake(std::string_view name) {
  pools_->wake(name);
}

MemoryCounters DeviceAllocator::counters() const {
  return pools_->own().counters();
}

void DeviceAllocator::reset_peaks() {
  pools_->own().reset_peaks();
}

MemorySnapshot DeviceAllocator::snapshot() const {
  return pools_->own().snapshot();
}

void DeviceAllocator::validate() const {
  pools_->validate();
}

}  // namespace berth
