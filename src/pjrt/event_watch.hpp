// SPDX-License-Identifier: Apache-2.0
// Waits for the events of one client.
//
// A callback receives a number that is never used again, and not an address. So a second callback
// for an event, or a callback after a refusal to call back, refers to no operation. If an event is
// ready and the plug-in does not call back, a thread detects it by queries.
//
// A plug-in may hold a lock of its own during a callback. So a callback calls only the functions of
// the plug-in that destroy the event, and read and destroy the error, as OpenXLA's own client does.
// The thread does the rest.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>

#include "berth/device_backend.hpp"

#include "base/stoppable_thread.hpp"
#include "base/task_queue.hpp"
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
  /// Runs `task`, which may call the plug-in, on the thread. From a `done` of this class; each task
  /// at most once.
  void run_later(std::shared_ptr<Task> task) noexcept BERTH_EXCLUDES(thread_.mutex);
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
  void add_waiter() BERTH_EXCLUDES(thread_.mutex);
  void remove_waiter() noexcept BERTH_EXCLUDES(thread_.mutex);
  using Clock = std::chrono::steady_clock;
  enum class Next { run, ask, end };

  void loop() BERTH_EXCLUDES(thread_.mutex);
  /// Waits until there is something to do: a task to run, or at `ask_at` events to ask for.
  Next next(Clock::time_point& ask_at, std::shared_ptr<Task>& task) BERTH_EXCLUDES(thread_.mutex);
  /// Ends the operations whose event has been ready without a callback.
  void end_forgotten() noexcept;

  const Api& api_;
  std::size_t waiters_ BERTH_GUARDED_BY(thread_.mutex) = 0;
  TaskQueue tasks_ BERTH_GUARDED_BY(thread_.mutex);
  StoppableThread thread_;
};

}  // namespace berth::pjrt
