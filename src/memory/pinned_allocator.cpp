// SPDX-License-Identifier: Apache-2.0
#include "berth/pinned_allocator.hpp"

#include <optional>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/order/device_event_pools.hpp"
#include "memory/source/whole_segments.hpp"
#include "memory/try_result.hpp"
#include "stream/default_streams.hpp"

namespace berth {

/// Exists where there is a device; which one does not matter, the memory is visible to all.
class PinnedAllocator::Impl {
 public:
  Impl(const DeviceRegistry& registry, const PinnedAllocatorOptions& options)
      : events_(registry),
        budget_({.max = options.reserved_bytes_max.value_or(MemoryBudget::kNoLimit)}),
        allocator_(events_.driver(),
                   {.name = "pinned",
                    .budget = budget_,
                    .events = [this](DeviceContext& context) -> EventPool& {
                      return events_.of(context);
                    }},
                   [&](BlockHeap&) {
                     return std::make_unique<PinnedSegments>(registry, options.segment_bytes);
                   }) {
    events_.for_each_context([this](DeviceContext& context) { context.add_observer(allocator_); });
  }

  ~Impl() {
    if (!allocator_.is_usable()) return;
    events_.for_each_context(
        [this](DeviceContext& context) { context.remove_observer(allocator_); });
    const MemoryCounters counters = allocator_.counters();
    if (counters.blocks_allocated.current == 0) return;
    events_.driver().report(
        Severity::warning,
        fmt::format(
            "pinned: {} allocations of {} were still live when their allocator was destroyed",
            counters.blocks_allocated.current, format_bytes(counters.bytes_requested.current)));
  }

  CachingAllocator& allocator() { return allocator_; }

 private:
  const DeviceEventPools events_;
  MemoryBudget budget_;
  CachingAllocator allocator_;
};

PinnedAllocator::PinnedAllocator(const DeviceRegistry& registry, PinnedAllocatorOptions options) {
  if (options.segment_bytes < 64_KiB) {
    throw InvalidArgument(
        fmt::format("PinnedAllocatorOptions::segment_bytes is {}; accepted: 64 KiB or more",
                    options.segment_bytes));
  }
  if (registry.is_available()) impl_ = std::make_unique<Impl>(registry, options);
}

PinnedAllocator::~PinnedAllocator() = default;

CachingAllocator& PinnedAllocator::require_device() const {
  if (impl_ == nullptr) {
    throw NotSupported("memory cannot be pinned without a CUDA device, and there is none");
  }
  return impl_->allocator();
}

void* PinnedAllocator::allocate_raw(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return require_device().allocate(bytes, std::nullopt);
}

Result<Allocation> PinnedAllocator::try_allocate(std::size_t bytes) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes); });
}

void PinnedAllocator::deallocate(void* data) {
  if (data != nullptr) require_device().deallocate(data);
}

void PinnedAllocator::record_stream(void* data, StreamRef stream) {
  require_one_stream(stream);
  require_device().record_stream(data, stream);
}

void PinnedAllocator::record_use(void* data, StreamRef stream) {
  require_device().record_use(data, stream);
}

std::size_t PinnedAllocator::trim(std::size_t bytes_to_keep) {
  return impl_ ? impl_->allocator().trim(bytes_to_keep) : 0;
}

std::size_t PinnedAllocator::release_unused(std::chrono::nanoseconds age) {
  return impl_ ? impl_->allocator().release_unused(age, std::chrono::steady_clock::now()) : 0;
}

void PinnedAllocator::retire_stream(StreamRef stream) noexcept {
  if (impl_) impl_->allocator().retire_stream(stream);
}

void* PinnedAllocator::find_block(const void* data) const noexcept {
  return impl_ ? impl_->allocator().find_block(data) : nullptr;
}

MemoryCounters PinnedAllocator::counters() const {
  return impl_ ? impl_->allocator().counters() : MemoryCounters{};
}

void PinnedAllocator::reset_peaks() {
  if (impl_) impl_->allocator().reset_peaks();
}

MemorySnapshot PinnedAllocator::snapshot() const {
  if (impl_) return impl_->allocator().snapshot();
  MemorySnapshot empty;
  empty.allocator = "pinned";
  return empty;
}

void PinnedAllocator::validate() const {
  if (impl_) impl_->allocator().validate();
}

}  // namespace berth
