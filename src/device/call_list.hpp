// SPDX-License-Identifier: Apache-2.0
// Objects that are called one after the other without a lock, and may be removed at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

/// The objects of a CallList, without their type.
/// Threads  Safe from any thread.
class UntypedCallList {
 public:
  void add(void* object);
  void remove(void* object) noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }
  using Function = void (*)(void* object, const void* call);
  void call_each(Function function, const void* call) noexcept;

 private:
  struct Entry {
    void* object;  ///< null once removed; the entry stays until calls in progress return
    std::size_t calls = 0;
  };
  using Entries = std::list<Entry>;
  struct Call;

  static std::size_t calls_of_this_thread(const Entry& entry);
  Entries::iterator erase(Entries::iterator entry) noexcept BERTH_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable returned_;
  Entries entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries_, so that an empty list takes no lock
};

/// Threads  Safe from any thread.
template <class T>
class CallList {
 public:
  /// Errors  std::bad_alloc: nothing is changed.
  void add(T& object) { list_.add(std::addressof(object)); }
  /// Waits for calls of other threads into the object, which may be destroyed then. The caller
  /// holds no lock that they need. Called from within a call into the object, it does not wait for
  /// that call, which must not use the object afterwards. Two objects must not remove each other
  /// from within calls.
  void remove(T& object) noexcept { list_.remove(std::addressof(object)); }
  /// Whether each object has been removed.
  [[nodiscard]] bool is_empty() const noexcept { return list_.is_empty(); }
  /// Calls `call(object)`, which does not throw, for each object that is not removed meanwhile.
  /// Allocates no memory.
  template <class Call>
  void call_each(const Call& call) noexcept {
    list_.call_each(
        [](void* object, const void* typed) {
          (*static_cast<const Call*>(typed))(*static_cast<T*>(object));
        },
        &call);
  }

 private:
  UntypedCallList list_;
};

}  // namespace berth
