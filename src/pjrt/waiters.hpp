// SPDX-License-Identifier: Apache-2.0
// The operations of all plug-ins that wait for a callback, by numbers that are never used again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "berth/device_backend.hpp"

#include "base/mutex.hpp"
#include "pjrt/api.hpp"

namespace berth::pjrt {

class EventWatch;

/// Passed to a plug-in as an address. Its lowest bits are the number of the plug-in.
using WaiterId = std::uintptr_t;
std::size_t api_number_of(WaiterId id);

class OwnedEvent {
 public:
  OwnedEvent(const Api& api, Event* event) : api_(api), event_(event) {}
  ~OwnedEvent() {
    if (event_ != nullptr) api_.destroy(event_destroy, {0, nullptr, event_});
  }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  [[nodiscard]] Event* get() const { return event_; }
  void release() { event_ = nullptr; }

 private:
  const Api& api_;
  Event* event_;
};

/// One operation. Who takes it from the table ends it.
struct Waiter {
  /// From here on the watch counts it.
  /// Errors  Exhausted.
  Waiter(EventWatch& watch_, const char* function_);
  void end(std::exception_ptr failure) noexcept;
  /// It is no longer counted, and does not own its event.
  void withdraw() noexcept;

  EventWatch& watch;
  const char* const function;
  std::shared_ptr<OwnedEvent> event;  ///< shared with a thread that asks for it
  DeviceBackend::Done done;
  /// When the plug-in agreed to call back; until then no other thread may use the event.
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::time_point::max();
};

/// Threads  Safe from any thread.
class Waiters {
 public:
  /// A callback without an operation.
  enum class Callback {
    late,        ///< its operation was taken before it, or so long ago that this is not known
    second,      ///< its operation was taken by another one
    of_nothing,  ///< its number was never given, so its plug-in is unknown
  };
  struct Asked {
    WaiterId id;
    const char* function;
    std::shared_ptr<OwnedEvent> event;
  };

  /// Errors  std::bad_alloc.
  WaiterId add(std::shared_ptr<Waiter> waiter) BERTH_EXCLUDES(mutex_);
  /// Null if it was taken before.
  [[nodiscard]] std::shared_ptr<Waiter> take(WaiterId id) noexcept BERTH_EXCLUDES(mutex_);
  /// The same before the callback, which may still come.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<Waiter> take_before_callback(WaiterId id) BERTH_EXCLUDES(mutex_);
  /// waiting_since() finds it from now on, if it was not taken before.
  void ask_from_now(WaiterId id) noexcept BERTH_EXCLUDES(mutex_);
  /// For a callback whose take() was null. It is late only once.
  [[nodiscard]] Callback judge(WaiterId id) noexcept BERTH_EXCLUDES(mutex_);
  /// Those of a watch that wait for a callback since `start` or longer.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::vector<Asked> waiting_since(const EventWatch& watch,
                                                 std::chrono::steady_clock::time_point start)
      BERTH_EXCLUDES(mutex_);

 private:
  std::shared_ptr<Waiter> extract(WaiterId id) noexcept BERTH_REQUIRES(mutex_);

  Mutex mutex_;
  std::uintptr_t serial_ BERTH_GUARDED_BY(mutex_) = 0;
  std::unordered_map<WaiterId, std::shared_ptr<Waiter>> waiters_ BERTH_GUARDED_BY(mutex_);
  /// Those that were taken before their callback. Bounded, because it may never come.
  std::set<WaiterId> without_callback_ BERTH_GUARDED_BY(mutex_);
  WaiterId forgotten_to_ BERTH_GUARDED_BY(mutex_) = 0;  ///< the last one that was dropped from it
};

/// Never destroyed, because a plug-in may call back at any time.
Waiters& waiters();

}  // namespace berth::pjrt
