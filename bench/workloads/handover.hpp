// SPDX-License-Identifier: Apache-2.0
// Blocks that one thread allocates and another one frees, handed over in batches through a ring.
//
// Threads  One calls produce(), one other consume(), each as often as the other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>

#include "berth/stream.hpp"

namespace berth::bench {

template <class Allocator>
class Handover {
 public:
  static constexpr std::size_t kBatchBlocks = 64;

  Handover(Allocator& allocator, std::size_t bytes, StreamRef stream)
      : allocator_(allocator), bytes_(bytes), stream_(stream) {}
  ~Handover() {
    for (; consumed_ != produced_; ++consumed_) deallocate(ring_[consumed_ % kBatches]);
  }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// Allocates a batch, once there is room for it.
  void produce() {
    wait_until([this] { return produced_ - consumed_ < kBatches; });
    guarded([this] {
      for (void*& block : ring_[produced_ % kBatches]) block = allocator_.allocate(bytes_, stream_);
    });
    produced_.store(produced_ + 1, std::memory_order_release);
  }

  /// Frees the oldest batch, once there is one.
  void consume() {
    wait_until([this] { return produced_ != consumed_; });
    guarded([this] {
      const auto begin = std::chrono::steady_clock::now();
      deallocate(ring_[consumed_ % kBatches]);
      freeing_ += std::chrono::steady_clock::now() - begin;
    });
    consumed_.store(consumed_ + 1, std::memory_order_release);
  }

  /// How long consume() has been freeing, without what it waited. Of the thread that calls that.
  [[nodiscard]] std::chrono::nanoseconds freeing() const { return freeing_; }

 private:
  using Batch = std::array<void*, kBatchBlocks>;
  static constexpr std::size_t kBatches = 16;
  // Two that share a cache line would be timed for that.
  static constexpr std::size_t kCacheLine = 64;

  void deallocate(const Batch& batch) {
    for (void* block : batch) allocator_.deallocate(block, bytes_, stream_);
  }

  template <class Ready>
  void wait_until(Ready ready) const {
    while (!ready()) {
      if (abandoned_) throw std::runtime_error("the other thread failed");
      std::this_thread::yield();
    }
  }

  /// `work()`; the other thread must not wait for a batch that will never come.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (...) {
      abandoned_ = true;
      throw;
    }
  }

  Allocator& allocator_;
  std::size_t bytes_;
  StreamRef stream_;
  std::array<Batch, kBatches> ring_{};
  std::chrono::nanoseconds freeing_{0};
  std::atomic<bool> abandoned_ = false;
  alignas(kCacheLine) std::atomic<std::size_t> produced_ = 0;
  alignas(kCacheLine) std::atomic<std::size_t> consumed_ = 0;
};

}  // namespace berth::bench
