// SPDX-License-Identifier: Apache-2.0
// Per-thread parts of an owner (an allocator, a pool). A thread finds its own part without a lock;
// other threads get exclusive access to all parts.
//
// A part ends with its thread or its owner, whichever ends first. One table per process connects
// both sides. Its lock is taken only when threads and owners begin and end.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/biased_lock.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// The table of threads, owners and parts on which PerThread is built.
/// Threads  As PerThread.
class PerThreadTable {
 public:
  /// Whether to wait for the table's lock. A thread that ends holds it while it waits for the locks
  /// of owners.
  enum class Blocking : bool { no, yes };

  PerThreadTable(const PerThreadTable&) = delete;
  PerThreadTable& operator=(const PerThreadTable&) = delete;

 protected:
  PerThreadTable();
  virtual ~PerThreadTable() = default;

  /// The calling thread's part; null if it has none.
  [[nodiscard]] void* find() const {
    return thread_parts_->of_owner[index_].load(std::memory_order_relaxed);
  }
  /// Whether the calling thread may have a part. Without blocking, false if the lock is taken.
  [[nodiscard]] bool prepare(Blocking blocking) const noexcept;
  /// After prepare() returned true.
  void set(void* part) const {
    thread_parts_->of_owner[index_].store(part, std::memory_order_relaxed);
  }
  /// From now on no thread finds a part. Call it first in the destructor of the owner.
  void forget();
  /// Called on a thread that has a part and ends.
  virtual void thread_ends(void* part) = 0;

 private:
  static constexpr std::size_t kOwnersMax = 256;

  /// A thread's parts, by the index of their owners.
  struct ThreadParts {
    std::array<std::atomic<void*>, kOwnersMax + 1> of_owner{};
    ThreadParts* next = nullptr;  ///< another thread's: under the lock of the table
  };
  struct ThreadEnd;
  struct Process;
  static Process& process();
  static void forget_all_but_own_empty_parts();

  static ThreadParts no_parts_;
  /// In the static TLS block, so that an access is one instruction and no call.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local ThreadParts* thread_parts_;

  const ForkOrigin origin_;
  std::size_t index_ = kOwnersMax;  ///< of no owner
};

/// `Part` has a lock(), a BiasedLock, through which its thread enters it.
///
/// Threads  local() and local_or_new(): any. The rest under the owner's lock.
template <class Part>
class PerThread final : private PerThreadTable {
 public:
  using PerThreadTable::Blocking;
  /// Called on a thread that ends, under the owner's lock. Takes back the content of its part.
  using OnThreadEnd = std::function<void(Part&)>;

  /// `mutex` is the owner's lock.
  PerThread(Mutex& mutex, OnThreadEnd on_thread_end)
      : mutex_(mutex), on_thread_end_(std::move(on_thread_end)) {}
  /// The owner must have taken back the content of all parts.
  ~PerThread() override { forget(); }

  /// The calling thread's part; null if it has none.
  [[nodiscard]] Part* local() const { return static_cast<Part*>(find()); }
  /// The same, created if there is none. Null, so that the owner works without a part, on a thread
  /// that is about to end, beyond kOwnersMax owners, if the kernel does not support BiasedLock, and
  /// if the host has no memory. Not under the owner's lock; with Blocking::yes, under no owner's
  /// lock.
  Part* local_or_new(Blocking blocking = Blocking::yes) noexcept {
    Part* const part = local();
    return part != nullptr ? part : make(blocking);
  }

  /// Number of parts. Under the owner's lock.
  [[nodiscard]] std::size_t count() const { return all_.size(); }

  /// While it exists, no other thread can enter its part. Hold the owner's lock as long. Allocates
  /// no memory.
  class ExclusiveAccess {
   public:
    explicit ExclusiveAccess(PerThread& parts)
        : parts_(parts),
          alone_(parts.all_.empty() || (parts.all_.size() == 1 && parts.local() != nullptr)) {
      if (alone_) return;
      for_each_other([](Part& part) { part.lock().forbid(); });
      BiasedLock::fence();
      for_each_other([](Part& part) { part.lock().wait_until_left(); });
    }
    ~ExclusiveAccess() {
      if (alone_) return;
      for_each_other([](Part& part) { part.lock().permit(); });
    }
    ExclusiveAccess(const ExclusiveAccess&) = delete;
    ExclusiveAccess& operator=(const ExclusiveAccess&) = delete;

    template <class Visit>
    void for_each(const Visit& visit) const {
      for (const auto& part : parts_.all_) visit(*part);
    }

   private:
    template <class Visit>
    void for_each_other(const Visit& visit) const {
      const Part* const local = parts_.local();
      for (const auto& part : parts_.all_) {
        if (part.get() != local) visit(*part);
      }
    }

    PerThread& parts_;
    const bool alone_;
  };

  /// Calls visit(const Part&) for each; its thread may change it at the same time.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& part : all_) visit(std::as_const(*part));
  }

 private:
  [[gnu::noinline]] Part* make(Blocking blocking) noexcept {
    if (!prepare(blocking)) return nullptr;
    try {
      auto made = std::make_unique<Part>();
      const MutexLock lock(mutex_);
      set(all_.emplace_back(std::move(made)).get());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    return local();
  }

  void thread_ends(void* ending) override {
    const MutexLock lock(mutex_);
    on_thread_end_(*static_cast<Part*>(ending));
    std::erase_if(all_, [&](const auto& part) { return part.get() == ending; });
  }

  Mutex& mutex_;
  const OnThreadEnd on_thread_end_;
  std::vector<std::unique_ptr<Part>> all_;
};

}  // namespace berth
