// SPDX-License-Identifier: Apache-2.0
// The history of allocations and frees, and where the live blocks were allocated, for PyTorch's
// snapshots.
#pragma once

#include <atomic>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/ApproximateClock.h>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

struct CUstream_st;

namespace berth::torch {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

/// Threads  Every function from any thread.
class History {
 public:
  struct Options {
    CreateContextFn context;
    std::size_t entries_max;
    RecordContext when;
    std::vector<std::string> skipped;  ///< names of actions that are not recorded
  };

  /// What every allocation and free asks.
  [[nodiscard]] bool is_enabled() const { return is_enabled_.load(std::memory_order_relaxed); }
  void enable(const Options& options);
  void disable();
  void clear();

  void allocated(void* data, std::size_t bytes, int device, CUstream_st* stream);
  /// Before the block can be allocated again.
  void freed(void* data);
  void out_of_memory(std::size_t bytes, int device, std::size_t bytes_free);

  /// The entries of each of so many devices, oldest first, with the time of day.
  [[nodiscard]] std::vector<std::vector<TraceEntry>> entries(int devices);
  /// Of the live block that starts there; null if it is not known.
  [[nodiscard]] std::shared_ptr<c10::GatheredContext> context_of(const void* data);

 private:
  struct Live {
    std::size_t bytes;
    int device;
    CUstream_st* stream;
    std::shared_ptr<c10::GatheredContext> context;
  };
  using Context = std::shared_ptr<c10::GatheredContext>;

  /// Called without the lock, because it runs code of PyTorch.
  [[nodiscard]] Context context(RecordContext level);
  void add(TraceEntry::Action action, int device, std::size_t address, std::size_t bytes,
           CUstream_st* stream, const Context& context);

  c10::ApproximateClockToUnixTimeConverter clock_;  ///< measures from here on
  std::atomic<bool> is_enabled_ = false;
  std::mutex mutex_;
  Options options_{};
  std::map<int, std::deque<TraceEntry>> entries_;
  std::unordered_map<const void*, Live> live_;
};

}  // namespace berth::torch
