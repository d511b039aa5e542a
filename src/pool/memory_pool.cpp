// SPDX-License-Identifier: Apache-2.0
#include "berth/memory_pool.hpp"

#include <utility>

#include "base/format.hpp"
#include "memory/try_result.hpp"
#include "pool/device_memory.hpp"

namespace berth {

/// Closes the pool when the last handle is destroyed. Handles that outlive the Runtime have no
/// pool: it has been closed.
struct MemoryPool::Reference {
  Reference(DeviceMemory& memory_, std::shared_ptr<DevicePool> pool_)
      : memory(memory_), device(pool_->device()), name(pool_->name()), pool(std::move(pool_)) {
    memory.attach(*pool, pool);
  }
  ~Reference() {
    if (has_pool()) memory.close(*pool);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// False in a forked child too, where handles have no effect.
  [[nodiscard]] bool has_pool() const { return pool != nullptr && pool->is_usable(); }

  DeviceMemory& memory;
  const Device device;
  const std::string name;
  std::shared_ptr<DevicePool> pool;
};

MemoryPool::MemoryPool(DeviceMemory& device, std::shared_ptr<DevicePool> pool) {
  try {
    reference_ = std::make_shared<Reference>(device, pool);
  } catch (...) {
    device.close(*pool);  // no handle exists that would close it
    throw;
  }
}

MemoryPool::~MemoryPool() = default;

DevicePool& MemoryPool::pool() const {
  DevicePool* const pool = reference_->pool.get();
  if (pool == nullptr) [[unlikely]]
    refuse_ended();
  return *pool;
}

void MemoryPool::refuse_ended() const {
  throw InvalidArgument(
      format_text("{} is used after its Runtime was destroyed", reference_->name));
}

Allocation MemoryPool::allocate(std::size_t bytes, StreamRef stream) {
  return {pool(), pool().allocate(bytes, stream), bytes, stream};  // may outlive this handle
}

Result<Allocation> MemoryPool::try_allocate(std::size_t bytes, StreamRef stream) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes, stream); });
}

void* MemoryPool::allocate_raw(std::size_t bytes, StreamRef stream) {
  return pool().allocate(bytes, stream);
}

Allocation MemoryPool::adopt(void* data) {
  const std::optional<MemoryBlock> block = pool().find(data);
  if (!block || block->data != data) {
    throw InvalidArgument(format_text(
        "{} is not the start of a live block of {}; accepted: what allocate_raw() returned", data,
        name()));
  }
  return {pool(), data, block->bytes};  // may outlive this handle
}

void MemoryPool::deallocate(void* data) {
  pool().deallocate(data);
}

void MemoryPool::record_stream(void* data, StreamRef stream) {
  pool().record_stream(data, stream);
}

void MemoryPool::record_use(void* data, StreamRef stream) {
  pool().record_use(data, stream);
}

std::size_t MemoryPool::trim(std::size_t bytes_to_keep) {
  return pool().trim(bytes_to_keep);
}

std::size_t MemoryPool::release_unused(std::chrono::nanoseconds age) {
  return pool().release_unused(age);
}

void MemoryPool::retire_stream(StreamRef stream) noexcept {
  if (reference_->pool != nullptr) pool().retire_stream(stream);
}

void MemoryPool::set_limits(const MemoryLimits& limits) {
  pool().set_limits(limits);
}

bool MemoryPool::owns(const void* data) const noexcept {
  return reference_->pool != nullptr && pool().owns(data);
}

Device MemoryPool::device() const noexcept {
  return reference_->device;
}

std::optional<MemoryBlock> MemoryPool::find(const void* data) {
  std::optional<MemoryBlock> found = pool().find(data);
  if (found) found->allocator = this;
  return found;
}

std::optional<MemoryProperties> MemoryPool::properties(const void* data) {
  return pool().properties(data);
}

MemoryCounters MemoryPool::counters() const {
  return pool().counters();
}

void MemoryPool::reset_peaks() {
  pool().reset_peaks();
}

MemorySnapshot MemoryPool::snapshot() const {
  return pool().snapshot();
}

void MemoryPool::validate() const {
  pool().validate();
}

const std::string& MemoryPool::name() const noexcept {
  return reference_->name;
}

std::size_t MemoryPool::sleep(SleepContent content) {
  return pool().sleep(content);
}

void MemoryPool::wake() {
  pool().wake();
}

bool MemoryPool::is_asleep() const {
  return pool().is_asleep();
}

struct PoolCheckpoint::State {
  State(const std::shared_ptr<DevicePool>& pool_, HeapCheckpoint blocks_)
      : pool(pool_), blocks(std::move(blocks_)) {}

  const std::weak_ptr<DevicePool> pool;
  const HeapCheckpoint blocks;
};

std::size_t PoolCheckpoint::size() const noexcept {
  return state_->blocks.blocks.size();
}

PoolCheckpoint MemoryPool::checkpoint() const {
  if (!pool().is_for_graphs()) {
    throw InvalidArgument(format_text(
        "{} has no checkpoints; accepted: a pool created with MemoryPoolOptions::for_graphs",
        name()));
  }
  return PoolCheckpoint(std::make_shared<const PoolCheckpoint::State>(
      reference_->pool, pool().allocator().checkpoint()));
}

RestoredBlocks MemoryPool::restore(const PoolCheckpoint& checkpoint) {
  DevicePool& restored = pool();
  if (checkpoint.state_->pool.lock().get() != &restored) {
    throw InvalidArgument(
        format_text("{} cannot be restored: the checkpoint is of another pool", name()));
  }
  auto [freed, allocated, kept] = restored.allocator().restore(checkpoint.state_->blocks);
  return {std::move(freed), std::move(allocated), std::move(kept)};
}

PoolScope::PoolScope(const MemoryPool& pool, std::optional<StreamRef> stream) : pool_(pool) {
  DevicePool& opened = pool_.pool();  // first: the memory may have ended with its Runtime
  PoolScopes::Extent extent;
  if (stream) {
    opened.require_stream_of_device(*stream);
    extent.stream = handle_of(*stream);
  }
  // A request in the scope keeps the pool open, also when the scope ends meanwhile.
  number_ = pool_.reference_->memory.open_scope(
      extent, std::shared_ptr<DevicePool>(pool_.reference_, &opened));
}

PoolScope PoolScope::on_this_thread(const MemoryPool& pool) {
  return PoolScope(pool, std::nullopt);
}

PoolScope PoolScope::on_stream(const MemoryPool& pool, StreamRef stream) {
  return PoolScope(pool, stream);
}

PoolScope::~PoolScope() {
  if (number_ != 0 && pool_.reference_->has_pool()) pool_.reference_->memory.close_scope(number_);
}

}  // namespace berth
