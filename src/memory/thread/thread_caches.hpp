// SPDX-License-Identifier: Apache-2.0
// The ThreadCaches of one allocator, one for each thread that has used it; found by the thread
// itself without a lock, and by others when they need all of them.
//
// A cache goes when its thread ends or its allocator does, whichever is first. Both sides know of
// each other through one table a process, behind one lock that nothing but beginnings and ends take.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

class ThreadCaches {
 public:
  /// Called for the cache of a thread that ends, on it, under the allocator's lock: takes back what
  /// is kept there.
  using OnThreadEnd = std::function<void(ThreadCache&)>;

  /// `mutex` is the allocator's lock.
  ThreadCaches(Mutex& mutex, OnThreadEnd on_thread_end);
  /// The allocator must have taken back what is kept.
  ~ThreadCaches();
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;

  /// The calling thread's cache; null where it has none yet, or none any more.
  [[nodiscard]] ThreadCache* mine() const {
    return thread_table_->caches[index_].load(std::memory_order_relaxed);
  }
  /// The same, made where there is none. Null on a thread that is about to end, where there are more
  /// than kAllocatorsMax allocators, and where the kernel lacks what a BiasedLock needs: all goes
  /// through the heap then.
  /// Not under the allocator's lock.
  ThreadCache* mine_or_new();

  /// Keeps every other thread out of its cache while it exists. Needs the allocator's lock as long.
  class Halt {
   public:
    explicit Halt(ThreadCaches& caches);
    ~Halt();
    Halt(const Halt&) = delete;
    Halt& operator=(const Halt&) = delete;

    template <class Visit>
    void for_each(const Visit& visit) const {
      for (const auto& cache : caches_.all_) visit(*cache);
    }

   private:
    template <class Visit>
    void for_each_other(const Visit& visit) const;

    ThreadCaches& caches_;
    const bool alone_;
  };

  /// Host memory that the caches take. Under the allocator's lock.
  [[nodiscard]] std::size_t bytes_metadata() const;

 private:
  static constexpr std::size_t kAllocatorsMax = 64;

  /// A thread's caches, by the index of their allocators.
  struct ThreadTable {
    std::array<std::atomic<ThreadCache*>, kAllocatorsMax + 1> caches{};
  };
  struct ThreadEnd;
  struct Process;
  static Process& process();
  static void forget_all_but_own_empty_table();

  static ThreadTable no_caches_;
  /// In the thread's static block, so that reaching it is one instruction and no call.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local ThreadTable* thread_table_;

  const ForkOrigin origin_;
  Mutex& mutex_;
  const OnThreadEnd on_thread_end_;
  std::size_t index_ = kAllocatorsMax;  ///< which is nobody's
  std::vector<std::unique_ptr<ThreadCache>> all_;
};

}  // namespace berth
