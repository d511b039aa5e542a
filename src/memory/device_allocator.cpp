// SPDX-License-Identifier: Apache-2.0
#include "berth/device_allocator.hpp"

#include <bit>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "device/device_context.hpp"
#include "memory/arena_segments.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/try_result.hpp"
#include "memory/whole_segments.hpp"

namespace berth {
namespace {

std::size_t total_bytes(const DeviceContext& context) {
  std::size_t bytes = 0;
  context.driver().device_total_mem(&bytes, context.native());
  return bytes;
}

std::size_t granule_bytes(const DeviceContext& context, const DeviceAllocatorOptions& options) {
  const std::size_t minimum = minimum_granule_bytes(context);
  const std::size_t asked = options.granule_bytes;
  if (asked == 0) return minimum;
  if (!std::has_single_bit(asked) || asked < minimum) {
    throw InvalidArgument(fmt::format(
        "DeviceAllocatorOptions::granule_bytes is {}; accepted: 0 or a power of two from "
        "{} on, the least that {} maps",
        asked, minimum, context.device().to_string()));
  }
  return asked;
}

void check(const DeviceAllocatorOptions& options) {
  if (options.segment_bytes < 2_MiB) {
    throw InvalidArgument(
        fmt::format("DeviceAllocatorOptions::segment_bytes is {}; accepted: 2 MiB or more",
                    options.segment_bytes));
  }
}

}  // namespace

class DeviceAllocator::Impl {
 public:
  Impl(DeviceContext& context, EventPool& events, DeviceAllocatorOptions options)
      : context_(context),
        allocator_(context.driver(),
                   {.name = context.device().to_string(),
                    .reserved_bytes_max = options.reserved_bytes_max,
                    .on_pressure = options.on_pressure,
                    .events = [&events](DeviceContext&) -> EventPool& { return events; }},
                   [&](BlockHeap& heap) { return make_source(heap, options); }) {
    context_.add_observer(allocator_);
  }

  ~Impl() {
    if (!allocator_.is_usable()) return;
    context_.remove_observer(allocator_);
    report_live_blocks();
    const ContextScope scope(context_, std::nothrow);
    context_.driver().ctx_synchronize_or_report();
  }

  void require_stream_of_device(StreamRef stream) const {
    const bool fits = &stream.context() == &context_ && stream.native() != CU_STREAM_PER_THREAD;
    if (!fits) [[unlikely]]
      refuse(stream);
  }

  DeviceContext& context_;
  CachingAllocator allocator_;

 private:
  [[noreturn, gnu::cold]] void refuse(StreamRef stream) const {
    if (&stream.context() != &context_) {
      throw InvalidArgument(
          fmt::format("a stream of {} cannot order memory of {}; accepted: streams of the same "
                      "device and Runtime",
                      stream.device().to_string(), context_.device().to_string()));
    }
    throw InvalidArgument(
        "the per-thread default stream is a different stream on each thread under one handle, so "
        "it cannot order memory; accepted: the legacy default stream, or a stream of its own");
  }

  std::unique_ptr<SegmentSource> make_source(BlockHeap& heap,
                                             const DeviceAllocatorOptions& options) {
    const std::size_t device_bytes = total_bytes(context_);
    if (options.virtual_memory && supports_virtual_memory(context_)) {
      return std::make_unique<ArenaSegments>(context_, heap, granule_bytes(context_, options),
                                             device_bytes);
    }
    return std::make_unique<DeviceSegments>(context_, options.segment_bytes, device_bytes);
  }

  void report_live_blocks() const noexcept {
    const MemoryCounters counters = allocator_.counters();
    if (counters.blocks_allocated.current == 0) return;
    context_.driver().report(
        Severity::warning,
        fmt::format("{}: {} allocations of {} were still live when their allocator was destroyed",
                    context_.device().to_string(), counters.blocks_allocated.current,
                    format_bytes(counters.bytes_requested.current)));
  }
};

DeviceAllocator::DeviceAllocator(DeviceContext& context, EventPool& events,
                                 DeviceAllocatorOptions options) {
  check(options);
  impl_ = std::make_unique<Impl>(context, events, std::move(options));
}

DeviceAllocator::~DeviceAllocator() = default;

void* DeviceAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  impl_->require_stream_of_device(stream);
  return impl_->allocator_.allocate(bytes, stream);
}

Result<Allocation> DeviceAllocator::try_allocate(std::size_t bytes, StreamRef stream) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes, stream); });
}

void DeviceAllocator::deallocate(void* data) {
  impl_->allocator_.deallocate(data);
}

void DeviceAllocator::record_stream(void* data, StreamRef stream) {
  impl_->require_stream_of_device(stream);
  impl_->allocator_.record_stream(data, stream);
}

std::size_t DeviceAllocator::trim(std::size_t bytes_to_keep) {
  return impl_->allocator_.trim(bytes_to_keep);
}

void DeviceAllocator::retire_stream(StreamRef stream) noexcept {
  impl_->allocator_.retire_stream(stream);
}

void DeviceAllocator::set_reserved_bytes_max(std::optional<std::size_t> bytes) {
  impl_->allocator_.set_reserved_bytes_max(bytes);
}

bool DeviceAllocator::owns(const void* data) const noexcept {
  return impl_->allocator_.owns(data);
}

MemoryCounters DeviceAllocator::counters() const {
  return impl_->allocator_.counters();
}

void DeviceAllocator::reset_peaks() {
  impl_->allocator_.reset_peaks();
}

MemorySnapshot DeviceAllocator::snapshot() const {
  return impl_->allocator_.snapshot();
}

void DeviceAllocator::validate() const {
  impl_->allocator_.validate();
}

}  // namespace berth
