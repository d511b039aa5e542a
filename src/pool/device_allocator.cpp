// SPDX-License-Identifier: Apache-2.0
#include "berth/device_allocator.hpp"

#include "base/fork.hpp"
#include "memory/try_result.hpp"
#include "pool/device_memory.hpp"

namespace berth {

DeviceAllocator::DeviceAllocator(DeviceContext& context, EventPool& events,
                                 DeviceAllocatorOptions options)
    : memory_(std::make_unique<DeviceMemory>(context, events, std::move(options))) {}

DeviceAllocator::~DeviceAllocator() {
  // After a fork the state may be inconsistent.
  if (!memory_->is_usable()) keep_until_exit(std::move(memory_));
}

void* DeviceAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  return memory_->allocate(bytes, stream);
}

Result<Allocation> DeviceAllocator::try_allocate(std::size_t bytes, StreamRef stream) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes, stream); });
}

void DeviceAllocator::deallocate(void* data) {
  memory_->deallocate(data);
}

void DeviceAllocator::deallocate(void* data, StreamRef user) {
  memory_->deallocate(data, user);
}

void DeviceAllocator::record_stream(void* data, StreamRef stream) {
  memory_->record_stream(data, stream);
}

void DeviceAllocator::record_use(void* data, StreamRef stream) {
  memory_->record_use(data, stream);
}

std::size_t DeviceAllocator::trim(std::size_t bytes_to_keep) {
  return memory_->trim(bytes_to_keep);
}

std::size_t DeviceAllocator::release_unused(std::chrono::nanoseconds age) {
  return memory_->release_unused(age);
}

void DeviceAllocator::retire_stream(StreamRef stream) noexcept {
  memory_->retire_stream(stream);
}

void DeviceAllocator::set_limits(const MemoryLimits& limits) {
  memory_->set_limits(limits);
}

bool DeviceAllocator::owns(const void* data) const noexcept {
  return memory_->owns(data);
}

Device DeviceAllocator::device() const noexcept {
  return memory_->own().device();
}

std::optional<MemoryBlock> DeviceAllocator::find(const void* data) {
  std::optional<MemoryBlock> found = memory_->find(data);
  if (found) found->allocator = this;
  return found;
}

std::optional<MemoryProperties> DeviceAllocator::properties(const void* data) {
  return memory_->properties(data);
}

bool DeviceAllocator::is_for_graphs(const void* data) const noexcept {
  return memory_->is_for_graphs(data);
}

void DeviceAllocator::set_on_pressure(std::function<bool(std::size_t bytes_needed)> on_pressure) {
  memory_->set_on_pressure(std::move(on_pressure));
}

MemoryPool DeviceAllocator::create_pool(const MemoryPoolOptions& options) {
  return {*memory_, memory_->open(options)};
}

std::vector<MemorySnapshot> DeviceAllocator::pool_snapshots() const {
  std::vector<MemorySnapshot> snapshots;
  for (const auto& pool : memory_->private_pools()) snapshots.push_back(pool->snapshot());
  return snapshots;
}

std::size_t DeviceAllocator::sleep(std::string_view name, SleepContent content) {
  return memory_->sleep(name, content);
}

void DeviceAllocator::wake(std::string_view name) {
  memory_->wake(name);
}

MemoryCounters DeviceAllocator::counters() const {
  return memory_->own().counters();
}

void DeviceAllocator::reset_peaks() {
  memory_->own().reset_peaks();
}

MemorySnapshot DeviceAllocator::snapshot() const {
  return memory_->own().snapshot();
}

void DeviceAllocator::validate() const {
  memory_->validate();
}

}  // namespace berth
