// SPDX-License-Identifier: Apache-2.0
// Items that one thread takes and another one returns, passed in batches through a ring.
//
// Threads  One calls produce() and another one consume(), equally often.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>

namespace berth::bench {

/// `Source` has a type Item, which is cheap to move and has a value without meaning; `Item take()`,
/// and `give_back(Item&)`.
template <class Source>
class Handover {
 public:
  static constexpr std::size_t kBatchItems = 64;

  explicit Handover(Source source) : source_(source) {}
  ~Handover() {
    for (; consumed_ != produced_; ++consumed_) give_back(ring_[consumed_ % kBatches]);
  }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// Takes a batch when there is room for it.
  void produce() {
    wait_until([this] { return produced_ - consumed_ < kBatches; });
    guarded([this] {
      for (Item& item : ring_[produced_ % kBatches]) item = source_.take();
    });
    produced_.store(produced_ + 1, std::memory_order_release);
  }

  /// Returns the oldest batch when there is one.
  void consume() {
    wait_until([this] { return produced_ != consumed_; });
    guarded([this] {
      const auto begin = std::chrono::steady_clock::now();
      give_back(ring_[consumed_ % kBatches]);
      giving_back_ += std::chrono::steady_clock::now() - begin;
    });
    consumed_.store(consumed_ + 1, std::memory_order_release);
  }

  /// The time that consume() spent on returning, without waits. Called on the thread of consume().
  [[nodiscard]] std::chrono::nanoseconds giving_back() const { return giving_back_; }

 private:
  using Item = typename Source::Item;
  using Batch = std::array<Item, kBatchItems>;
  static constexpr std::size_t kBatches = 16;
  // Separate cache lines, because sharing one would be measured.
  static constexpr std::size_t kCacheLine = 64;

  void give_back(Batch& batch) {
    for (Item& item : batch) source_.give_back(item);
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

  Source source_;
  std::array<Batch, kBatches> ring_{};
  std::chrono::nanoseconds giving_back_{0};
  std::atomic<bool> abandoned_ = false;
  alignas(kCacheLine) std::atomic<std::size_t> produced_ = 0;
  alignas(kCacheLine) std::atomic<std::size_t> consumed_ = 0;
};

}  // namespace berth::bench
