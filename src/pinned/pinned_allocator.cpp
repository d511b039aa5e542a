// SPDX-License-Identifier: Apache-2.0
#include "berth/pinned_allocator.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "berth/bytes.hpp"

#include "base/fork.hpp"
#include "base/format.hpp"
#include "device/own_context.hpp"
#include "memory/recorded_block.hpp"
#include "memory/try_result.hpp"
#include "pinned/pinned_heaps.hpp"
#include "stream/default_streams.hpp"

namespace berth {
namespace {

void check(const PinnedAllocatorOptions& options) {
  if (options.segment_bytes < 64_KiB || options.segment_bytes > 1_GiB) {
    throw InvalidArgument(
        format_text("PinnedAllocatorOptions::segment_bytes is {}; accepted: 64 KiB to 1 GiB",
                    options.segment_bytes));
  }
  if (options.prefault_threads > 128) {
    throw InvalidArgument(format_text(
        "PinnedAllocatorOptions::prefault_threads is {}; accepted: 0 to 128, 0 for pages that the "
        "driver allocates",
        options.prefault_threads));
  }
  if (options.slack_max && !(*options.slack_max >= 0 && *options.slack_max <= 1)) {
    throw InvalidArgument(
        format_text("PinnedAllocatorOptions::slack_max is {}; accepted: 0 to 1, or no limit",
                    *options.slack_max));
  }
  const std::size_t room = std::numeric_limits<std::size_t>::max() - options.segment_bytes;
  const std::size_t cached_min = std::min(options.low_water_bytes, room) + options.segment_bytes;
  if (options.low_water_bytes > 0 && options.bytes_cached_max.value_or(cached_min) < cached_min) {
    throw InvalidArgument(
        format_text("PinnedAllocatorOptions::bytes_cached_max is {}; accepted: {} or more, which "
                    "low_water_bytes and segment_bytes want, or no limit",
                    *options.bytes_cached_max, cached_min));
  }
}

}  // namespace

PinnedAllocator::PinnedAllocator(const DeviceRegistry& registry, PinnedAllocatorOptions options) {
  check(options);
  if (registry.is_available()) heaps_ = std::make_unique<PinnedHeaps>(registry, options);
}

PinnedAllocator::~PinnedAllocator() {
  // After a fork the state may be inconsistent.
  if (heaps_ != nullptr && !heaps_->is_usable()) keep_until_exit(std::move(heaps_));
}

PinnedHeaps& PinnedAllocator::require_device() const {
  if (heaps_ == nullptr) {
    throw NotSupported("memory cannot be pinned without a CUDA device, and there is none");
  }
  return *heaps_;
}

PinnedHeaps& PinnedAllocator::require_own(StreamRef user) const {
  PinnedHeaps& heaps = require_device();
  require_own_context(heaps.registry(), user.context(), "recorded for pinned memory");
  return heaps;
}

void* PinnedAllocator::allocate_raw(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return require_device().allocate(bytes);
}

void* PinnedAllocator::allocate_raw(std::size_t bytes, const PinnedOptions& options) {
  if (bytes == 0) return nullptr;
  return require_device().allocate(bytes, options);
}

void* PinnedAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  return recorded(*this, allocate_raw(bytes, PinnedOptions{.near = stream.device()}), stream);
}

Result<Allocation> PinnedAllocator::try_allocate(std::size_t bytes) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes); });
}

Result<Allocation> PinnedAllocator::try_allocate(std::size_t bytes,
                                                 const PinnedOptions& options) noexcept {
  return try_result<Allocation>([&] { return allocate(bytes, options); });
}

void PinnedAllocator::deallocate(void* data) {
  if (data != nullptr) require_device().deallocate(data);
}

void PinnedAllocator::record_stream(void* data, StreamRef stream) {
  if (data == nullptr) return;
  refuse_per_thread_default(stream);
  require_own(stream).record_stream(data, stream);
}

void PinnedAllocator::record_use(void* data, StreamRef stream) {
  if (data == nullptr) return;
  refuse_per_thread_default(stream);
  require_own(stream).record_use(data, stream);
}

void PinnedAllocator::keep_for_graph(void* data, StreamRef stream) {
  if (data == nullptr) return;
  refuse_per_thread_default(stream);
  require_own(stream).keep_for_graph(data, stream);
}

std::size_t PinnedAllocator::trim(std::size_t bytes_to_keep) {
  return heaps_ ? heaps_->trim(bytes_to_keep) : 0;
}

std::size_t PinnedAllocator::release_unused(std::chrono::nanoseconds age) {
  return heaps_ ? heaps_->release_unused(age) : 0;
}

void PinnedAllocator::retire_stream(StreamRef stream) noexcept {
  if (heaps_) heaps_->retire_stream(stream);
}

Result<HostRegistration> PinnedAllocator::try_register_memory(void* data,
                                                              std::size_t bytes) noexcept {
  return try_result<HostRegistration>([&] { return register_memory(data, bytes); });
}

void PinnedAllocator::register_raw(void* data, std::size_t bytes) {
  if (bytes > 0) require_device().add_registration(data, bytes);
}

void PinnedAllocator::unregister(void* data) {
  if (data != nullptr) require_device().registrations().remove(data);
}

void PinnedAllocator::end_registration(void* data) noexcept {
  try {
    unregister(data);
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    heaps_->driver().report(Severity::error, "pinned: memory could not be unregistered", error);
  }
}

void* PinnedAllocator::find_block(const void* data) const noexcept {
  return heaps_ ? heaps_->look_up(data).block : nullptr;
}

bool PinnedAllocator::owns(const void* data) const noexcept {
  return heaps_ && heaps_->owns(data);
}

std::optional<PinnedRange> PinnedAllocator::find(const void* data) const {
  return heaps_ ? heaps_->find(data) : std::nullopt;
}

MemoryCounters PinnedAllocator::counters() const {
  return heaps_ ? heaps_->counters() : MemoryCounters{};
}

PinnedGrowthCounters PinnedAllocator::growth_counters() const {
  return heaps_ ? heaps_->growth_counters() : PinnedGrowthCounters{};
}

std::size_t PinnedAllocator::bytes_registered() const {
  return heaps_ ? heaps_->registrations().bytes() : 0;
}

void PinnedAllocator::reset_peaks() {
  if (heaps_) heaps_->reset_peaks();
}

MemorySnapshot PinnedAllocator::snapshot() const {
  if (heaps_) return heaps_->snapshot();
  MemorySnapshot empty;
  empty.allocator = "pinned";
  return empty;
}

void PinnedAllocator::validate() const {
  if (heaps_) heaps_->validate();
}

void PinnedAllocator::finish_background_work() {
  if (heaps_) heaps_->finish_background_work();
}

HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept {
  if (this != &other) {
    reset();
    allocator_ = other.allocator_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void HostRegistration::record_stream(StreamRef stream) const {
  if (data_ != nullptr) allocator_->record_stream(data_, stream);
}

void HostRegistration::record_use(StreamRef stream) const {
  if (data_ != nullptr) allocator_->record_use(data_, stream);
}

void HostRegistration::reset() noexcept {
  if (data_ != nullptr) allocator_->end_registration(release());
}

}  // namespace berth
