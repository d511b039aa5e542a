// SPDX-License-Identifier: Apache-2.0
// berth as an allocator of PyTorch's own kind, with statistics, snapshots and its errors.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "history.hpp"
#include "memory_functions.hpp"
#include "statistics.hpp"

namespace berth::torch {

namespace caching = c10::cuda::CUDACachingAllocator;

/// What berth cannot do is refused by name: unsupported() throws c10::Error.
/// Threads  Every function from any thread.
class Allocator final : public caching::CUDAAllocator {
 public:
  explicit Allocator(MemoryFunctions& memory) : memory_(memory), statistics_(memory) {}

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* data) override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  void init(int device_count) override;
  bool initialized() override { return devices_ >= 0; }
  void enable(bool value) override;
  bool isEnabled() const override { return true; }
  std::string name() override { return "berth"; }

  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  void emptyCache(c10::MempoolId_t) override { memory_.trim(); }
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* data, std::size_t* bytes) override;
  using caching::CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void enablePeerAccess(c10::DeviceIndex user, c10::DeviceIndex owner) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool has_peer_access) override;

  // allocator_pools.cpp has these.
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t id) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t id) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t id,
                          std::shared_ptr<caching::CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t id, bool use_on_oom) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t id) override;
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex,
                                                              c10::MempoolId_t) override;
  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex, std::shared_ptr<caching::AllocatorState>) override;

  // allocator_inspect.cpp has these.
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  caching::SnapshotInfo snapshot(c10::MempoolId_t id, bool include_traces) override;
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override {
    return {};
  }
  bool isHistoryEnabled() override { return history_.is_enabled(); }
  void recordHistory(bool enabled, CreateContextFn context, std::size_t entries_max,
                     RecordContext when, bool clear_history,
                     const std::vector<std::string>& skip_actions) override;
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* data) override;
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override;
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override;
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override;
  caching::ShareableHandle shareIpcHandle(void* data) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

 private:
  /// Tells statistics, history, sanitizer and profiler.
  void note_allocated(void* data, std::size_t bytes, c10::DeviceIndex device, cudaStream_t stream);
  /// Tells history and sanitizer.
  void note_freed(void* data);
  /// Throws for a device that does not exist, as PyTorch's own allocator does.
  void require(c10::DeviceIndex device) const;
  void* allocate_on(std::size_t bytes, c10::DeviceIndex device, cudaStream_t stream);
  /// Throws what PyTorch's own allocator does, after the observers have been called.
  [[noreturn]] void fail(std::size_t bytes, c10::DeviceIndex device, const char* why);
  /// `change`: in bytes; below 0 for a free.
  void tell_profiler(void* data, std::int64_t change, c10::DeviceIndex device);

  MemoryFunctions& memory_;
  Statistics statistics_;
  History history_;
  std::atomic<int> devices_ = -1;  ///< -1: not initialized
  std::mutex mutex_;               ///< of what follows
  std::vector<caching::OutOfMemoryObserver> out_of_memory_observers_;
  std::map<c10::DeviceIndex, double> fractions_;
};

/// Throws c10::Error, which is a RuntimeError in Python.
[[noreturn]] void unsupported(const char* what);

}  // namespace berth::torch
