// SPDX-License-Identifier: Apache-2.0
#include "totals.hpp"

#include <array>
#include <atomic>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAMacros.h>

namespace berth::torch {
namespace {

/// By the one thread that counts here.
void raise(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

struct AllocationTotals::Counts {
  struct OfDevice {
    std::atomic<std::uint64_t> allocations = 0;
    std::atomic<std::uint64_t> bytes_requested = 0;
    std::atomic<std::uint64_t> bytes_allocated = 0;
  };
  std::array<OfDevice, C10_COMPILE_TIME_MAX_GPUS> devices;
};

/// The counts of a thread, which another thread continues when this one has ended.
class AllocationTotals::Lease {
 public:
  Lease() : counts_(take()) { current = counts_; }
  ~Lease() {
    current = nullptr;
    AllocationTotals& totals = get();
    const std::lock_guard lock(totals.mutex_);
    totals.idle_.push_back(counts_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  static Counts* take() {
    AllocationTotals& totals = get();
    const std::lock_guard lock(totals.mutex_);
    if (!totals.idle_.empty()) {
      Counts* const counts = totals.idle_.back();
      totals.idle_.pop_back();
      return counts;
    }
    totals.all_.push_back(new Counts);
    return totals.all_.back();
  }

  static thread_local Counts* current;

 private:
  Counts* const counts_;
};

thread_local AllocationTotals::Counts* AllocationTotals::Lease::current = nullptr;

AllocationTotals& AllocationTotals::get() {
  static auto* const totals = new AllocationTotals;
  return *totals;
}

AllocationTotals::Counts& AllocationTotals::own() {
  if (Lease::current == nullptr) {
    thread_local const Lease lease;
    // An allocation after the lease has ended, by what a thread destroys last.
    if (Lease::current == nullptr) Lease::current = Lease::take();
  }
  return *Lease::current;
}

void AllocationTotals::add(int device, std::size_t bytes) {
  Counts::OfDevice& counts = own().devices[static_cast<std::size_t>(device)];
  raise(counts.allocations, 1);
  raise(counts.bytes_requested, bytes);
  raise(counts.bytes_allocated, rounded(bytes));
}

Totals AllocationTotals::of(int device) {
  const std::lock_guard lock(mutex_);
  Totals sum;
  for (const Counts* counts : all_) {
    const Counts::OfDevice& of = counts->devices[static_cast<std::size_t>(device)];
    sum.allocations += of.allocations.load(std::memory_order_relaxed);
    sum.bytes_requested += of.bytes_requested.load(std::memory_order_relaxed);
    sum.bytes_allocated += of.bytes_allocated.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace berth::torch
