// SPDX-License-Identifier: Apache-2.0
// The memory that PyTorch gets: one runtime of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "berth/runtime.hpp"

#include "torch/torch_pools.hpp"

namespace berth::torch {

/// Threads  All calls from any.
class Memory {
 public:
  /// Never destroyed: blocks are freed while, and after, what is static ends.
  static Memory& get();

  [[nodiscard]] berth_runtime* handle() const noexcept { return handle_; }

  void* allocate(std::size_t bytes, int device, CUstream_st* stream);
  void free(void* data, int device);
  void record_stream(void* data, CUstream_st* stream);
  void* base(void* data, std::size_t* bytes);
  void trim();
  void limit(double fraction, int device);

  void begin_pool(int device, PoolId id, StreamFilter filter);
  void end_pool(int device, PoolId id) { pools_.end(device, id); }
  void release_pool(int device, PoolId id) { pools_.release(device, id); }

 private:
  Memory();

  static berth_runtime* create(Memory* memory);
  /// Closes pools whose graphs are gone, once the device is idle; whether there were any.
  bool close_released();
  /// The allocator of a device, which PyTorch has used from now on.
  /// Errors  InvalidArgument: no such device.
  DeviceAllocator& memory_of(int device) {
    const auto index = static_cast<std::size_t>(device);  // of a negative one: far too large
    if (index < used_.size()) [[likely]] {
      if (auto* const memory = used_[index].load(std::memory_order_acquire)) [[likely]]
        return *memory;
    }
    return first_memory_of(device);
  }
  DeviceAllocator& first_memory_of(int device);
  template <class Visit>
  void for_each_used(Visit visit);

  berth_runtime* const handle_;
  Runtime& runtime_;
  const std::vector<DeviceContext*> contexts_;       ///< by index of the device
  std::vector<std::atomic<DeviceAllocator*>> used_;  ///< likewise; null: PyTorch has not used it
  Pools pools_;
};

/// One line on the standard error stream.
void print(const char* severity, const char* text);

}  // namespace berth::torch
