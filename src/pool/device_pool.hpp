// SPDX-License-Identifier: Apache-2.0
// One pool of a device's memory: the caching allocator over its own segment source.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "berth/device_allocator.hpp"
#include "berth/memory_pool.hpp"

#include "base/descriptor.hpp"
#include "device/device_context.hpp"
#include "device/peer_access.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/memory_budget.hpp"
#include "memory/pressure_callback.hpp"
#include "stream/default_streams.hpp"

namespace berth {

class MappedSegments;

/// Threads  Safe from any thread.
class DevicePool final : public Allocator, public MappedMemory {
 public:
  struct Setup {
    DeviceContext& context;
    EventPool& events;
    const DeviceAllocatorOptions& device;  ///< options of all pools of the device
    const PressureCallback& on_pressure;   ///< replaces the one there
    MemoryBudget& device_budget;
    /// Returns memory of other pools for a request of this one.
    std::function<std::size_t(const DevicePool& asking, std::size_t bytes,
                              CachingAllocator::HostWait wait)>
        others;
  };
  DevicePool(const Setup& setup, const MemoryPoolOptions& options);
  /// After the device's work is done. Live blocks are reported.
  ~DevicePool() override;

  /// Contracts of these: DeviceAllocator.
  void* allocate(std::size_t bytes, StreamRef stream) {
    if (&stream.context() == kept_for_) [[likely]] {
      if (void* data = allocator_.allocate_cached(bytes, stream)) [[likely]]
        return data;
    }
    return allocate_slow(bytes, stream);
  }
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream) override {
    return allocate(bytes, stream);
  }
  [[nodiscard]] Device device() const noexcept override { return context_.device(); }
  void deallocate(void* data) override { allocator_.deallocate(data); }
  void record_stream(void* data, StreamRef stream) override {
    if (data == nullptr) return;
    require_stream_of_device(stream);
    allocator_.record_stream(data, stream);
  }
  void record_use(void* data, StreamRef stream) override {
    if (data == nullptr) return;
    require_stream_of_device(stream);
    allocator_.record_use(data, stream);
  }
  std::size_t trim(std::size_t bytes_to_keep) override { return allocator_.trim(bytes_to_keep); }
  std::size_t release_unused(std::chrono::nanoseconds age) override {
    return allocator_.release_unused(age, std::chrono::steady_clock::now());
  }
  /// Retires the stream for all allocators of the Runtime.
  void retire_stream(StreamRef stream) noexcept override {
    stream.context().retire_stream(stream.native());
  }
  [[nodiscard]] MemoryCounters counters() const override { return allocator_.counters(); }
  void reset_peaks() override { allocator_.reset_peaks(); }
  [[nodiscard]] MemorySnapshot snapshot() const override { return allocator_.snapshot(); }
  void validate() const override { allocator_.validate(); }

  [[nodiscard]] bool owns(const void* data) const { return allocator_.owns(data); }
  /// The live block that contains `data`.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data) {
    const auto live = allocator_.find_live(data);
    if (!live) return std::nullopt;
    return MemoryBlock{this, device(), live->data, live->bytes_requested};
  }
  /// The properties of the live block that contains `data`; nullopt if there is none.
  /// Errors  NotSupported: in a forked child.
  [[nodiscard]] std::optional<MemoryProperties> properties(const void* data);
  /// A descriptor of the segment of a live block, which is exportable.
  /// Errors  DriverError.
  [[nodiscard]] Descriptor export_segment(const MemoryProperties& block) const;
  [[nodiscard]] bool is_for_graphs() const { return allocator_.keeps_memory(); }
  [[nodiscard]] CachingAllocator& allocator() { return allocator_; }
  /// False in a forked child.
  [[nodiscard]] bool is_usable() const { return allocator_.is_usable(); }
  /// Errors  NotSupported: in a forked child.
  void require_usable() const { allocator_.require_origin(); }
  /// With the device, "cuda:0/weights", and without it.
  [[nodiscard]] const std::string& name() const { return allocator_.name(); }
  [[nodiscard]] const std::string& own_name() const { return own_name_; }
  void set_limits(const MemoryLimits& limits);
  /// Contracts: MemoryPool.
  std::size_t sleep(SleepContent content) { return allocator_.sleep(context_, content); }
  [[nodiscard]] std::optional<Reserve::Sleep> begin_sleep(SleepContent content) {
    return allocator_.begin_sleep(context_, content);
  }
  Reserve::Returned finish_sleep(const Reserve::Sleep& begun) {
    return allocator_.finish_sleep(begun);
  }
  void require_asleep(const Reserve::Returned& returned) const {
    allocator_.require_asleep(returned);
  }
  void cancel_sleep(const Reserve::Sleep& begun) noexcept { allocator_.cancel_sleep(begun); }
  void wake() { allocator_.wake(context_); }
  [[nodiscard]] bool is_asleep() const { return allocator_.is_asleep(); }
  void grant_access(DeviceContext& user) override { allocator_.grant_access(user); }
  /// Errors  InvalidArgument: a stream that cannot order memory of the device.
  void require_stream_of_device(StreamRef stream) const {
    if (&stream.context() != &context_) [[unlikely]]
      refuse_stream(stream);
    refuse_per_thread_default(stream);
  }

 private:
  [[noreturn]] void refuse_stream(StreamRef stream) const;
  [[gnu::noinline]] void* allocate_slow(std::size_t bytes, StreamRef stream);
  void report_live_blocks() const noexcept;

  DeviceContext& context_;
  /// The device whose streams may use a thread's cache; null for graphs, where each request queries
  /// whether its stream is captured.
  const DeviceContext* const kept_for_;
  const std::string own_name_;
  const std::size_t device_bytes_;
  MemoryBudget budget_;
  // Set by the constructor of allocator_.
  const MappedSegments* mapped_ = nullptr;  ///< its source, if it is one
  bool is_contiguous_ = false;
  CachingAllocator allocator_;
};

/// Total memory of the device.
std::size_t total_bytes(const DeviceContext& context);
/// The limits in bytes, for a device of that size.
MemoryBudget::Limits in_bytes(const MemoryLimits& limits, std::size_t device_bytes);

}  // namespace berth
