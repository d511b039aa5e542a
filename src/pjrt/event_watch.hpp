// SPDX-License-Identifier: Apache-2.0
// Waits for the events of one client.
//
// A plug-in that calls back twice for an event, or only after its refusal to call back, finds no
// operation: a callback gets a number that is never used again, and not an address. A plug-in that
// does not call back although the event is ready is asked for the event by a thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <thread>

#include "berth/device_backend.hpp"

#include "base/mutex.hpp"
#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Threads  Safe from any thread.
class EventWatch {
 public:
  explicit EventWatch(const Api& api) : api_(api) {}
  /// No event may be pending.
  ~EventWatch();
  EventWatch(const EventWatch&) = delete;
  EventWatch& operator=(const EventWatch&) = delete;

  [[nodiscard]] const Api& api() const { return api_; }

  /// Calls `done` when the event is ready, and destroys it. Null: an error of the plug-in. If the
  /// plug-in refuses to call back, this waits: `done` means that the operation is over.
  void when_ready(const char* function, Event* event, DeviceBackend::Done done) noexcept;
  /// Calls `done` once both events are ready, with the first failure. `second` may be null: there
  /// is only one then. Both are destroyed.
  void when_both_ready(const char* function, Event* first, Event* second,
                       DeviceBackend::Done done) noexcept;
  /// Whether await() will not wait. False also if the plug-in does not say.
  [[nodiscard]] bool is_ready(Event* event) const noexcept {
    return ask(event) == Readiness::ready;
  }
  /// Waits, and destroys the event. Returns its failure.
  [[nodiscard]] std::exception_ptr await(const char* function, Event* event) const noexcept;

 private:
  friend struct Waiter;
  enum class Readiness { ready, pending, unknown };

  [[nodiscard]] Readiness ask(Event* event) const noexcept;
  /// False: the plug-in will not call back, and `done` is unchanged.
  bool call_when_ready(const char* function, Event* event, DeviceBackend::Done& done) noexcept;
  /// Waits. Returns the failure of the event, or of the wait.
  [[nodiscard]] std::exception_ptr failure_of(const char* function, Event* event) const noexcept;

  /// Errors  Exhausted.
  void add_waiter() BERTH_EXCLUDES(mutex_);
  void remove_waiter() noexcept BERTH_EXCLUDES(mutex_);
  void loop() BERTH_EXCLUDES(mutex_);
  /// False at the end.
  bool sleep() BERTH_EXCLUDES(mutex_);
  /// Ends the operations whose event has been ready without a callback.
  void end_forgotten() noexcept;

  const Api& api_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t waiters_ BERTH_GUARDED_BY(mutex_) = 0;
  bool is_ending_ BERTH_GUARDED_BY(mutex_) = false;
  std::thread thread_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::pjrt
