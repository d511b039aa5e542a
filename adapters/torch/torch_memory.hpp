// SPDX-License-Identifier: Apache-2.0
// The memory that PyTorch gets: one runtime of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "berth/runtime.hpp"

#include "full/memory_functions.hpp"
#include "torch/torch_pools.hpp"

namespace berth::torch {

/// Threads  All calls from any.
class Memory final : public MemoryFunctions {
 public:
  /// Never destroyed: blocks are freed while, and after, what is static ends.
  static Memory& get();

  [[nodiscard]] berth_runtime* handle() const noexcept { return handle_; }

  void* allocate(std::size_t bytes, int device, CUstream_st* stream) override;
  /// `device`: the block's own.
  void free(void* data, int device);
  void free(void* data) override;
  void record_stream(void* data, CUstream_st* stream) override;
  void* base(void* data, std::size_t* bytes) override;
  void trim() override;
  void limit(double fraction, int device) override;
  void enable_peer_access(int user, int owner) override;

  void retain_pool(int device, PoolId id) override { pools_.retain(device, id, memory_of(device)); }
  void begin_pool(int device, PoolId id, StreamFilter filter) override;
  void end_pool(int device, PoolId id) override;
  void release_pool(int device, PoolId id) override { pools_.release(device, id); }
  int pool_uses(int device, PoolId id) override { return pools_.uses(device, id); }
  std::shared_ptr<const Checkpoint> checkpoint(int device, PoolId id) override;
  Restored restore(int device, PoolId id, const Checkpoint& checkpoint) override;

  // torch_inspect.cpp has these.
  DeviceCounters counters(int device) override;
  void reset_peaks(int device) override;
  std::size_t largest_free_block(int device) override;
  std::vector<Segment> segments(int device) override;

 private:
  Memory();

  static berth_runtime* create(Memory* memory);
  /// Closes pools whose graphs are gone, once the device is idle; whether there were any.
  bool close_released();
  /// The allocator of a device, which PyTorch has used from now on.
  /// Errors  InvalidArgument: no such device.
  DeviceAllocator& memory_of(int device) {
    if (auto* const memory = used(device)) [[likely]]
      return *memory;
    return first_memory_of(device);
  }
  /// null if PyTorch has not used the device, or there is no such device.
  [[nodiscard]] DeviceAllocator* used(int device) const {
    const auto index = static_cast<std::size_t>(device);  // of a negative one: far too large
    return index < used_.size() ? used_[index].load(std::memory_order_acquire) : nullptr;
  }
  DeviceAllocator& first_memory_of(int device);
  void share_with_used(int device);
  void try_enable_peer_access(int user, int owner);
  /// null in a forked child.
  /// Errors  InvalidArgument: memory of no device.
  DeviceAllocator* memory_with(const void* data);
  template <class Visit>
  void for_each_used(Visit visit);

  berth_runtime* const handle_;
  Runtime& runtime_;
  const std::vector<DeviceContext*> contexts_;       ///< by index of the device
  std::vector<std::atomic<DeviceAllocator*>> used_;  ///< likewise; null: PyTorch has not used it
  std::atomic<DeviceAllocator*> first_used_ = nullptr;
  std::atomic<bool> uses_several_ = false;
  Pools pools_;
};

/// One line on the standard error stream.
void print(const char* severity, const char* text);

}  // namespace berth::torch
