// SPDX-License-Identifier: Apache-2.0
// A thread for work that no caller should wait for: on request, at intervals, or both.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/fork.hpp"

namespace berth {

/// Threads  Safe from any thread. Only wait_until_done() and the end wait for the work.
class BackgroundThread {
 public:
  using Work = std::function<void()>;

  /// Calls work() after each request(), and, with a period, whenever so much time has passed
  /// without one. The thread starts now if there is a period, else with the first request.
  /// Errors  Exhausted: the thread cannot be started.
  explicit BackgroundThread(Work work,
                            std::optional<std::chrono::nanoseconds> period = std::nullopt);
  /// Blocking  While work() runs; requests that are left are dropped. Not in a forked child, which
  ///           has no such thread.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Requests that arrive before work() begins are one.
  /// Errors  Exhausted: the thread cannot be started.
  void request();
  /// Begins no more work. Blocking  As the destructor.
  void end();
  /// Whether it is ending: long work should return.
  [[nodiscard]] bool is_ending() const;
  /// Returns when all requests so far are done. Not on the thread itself.
  void wait_until_done();

 private:
  struct State;

  const ForkOrigin origin_;
  std::unique_ptr<State> state_;
};

}  // namespace berth
