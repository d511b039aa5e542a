// SPDX-License-Identifier: Apache-2.0
// A thread for work that should not delay a caller: on request, at intervals, or both.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/fork.hpp"

namespace berth {

/// Threads  Safe from any thread. Only wait_until_done() and the destructor wait for the work.
class BackgroundThread {
 public:
  using Work = std::function<void()>;

  /// Calls work() after each request() and, if there is a period, whenever that time has passed
  /// without a request. The thread starts now if there is a period, otherwise with the first
  /// request.
  /// Errors  Exhausted: the thread cannot be started.
  explicit BackgroundThread(Work work,
                            std::optional<std::chrono::nanoseconds> period = std::nullopt);
  /// Blocking  While work() runs; remaining requests are dropped. Not in a forked child, which has
  ///           no such thread.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Requests that arrive before work() begins count as one.
  /// Errors  Exhausted: the thread cannot be started.
  void request();
  /// Makes the thread begin no more work.
  /// Blocking  As the destructor.
  void end();
  /// Whether the thread is ending, so that long work should return.
  [[nodiscard]] bool is_ending() const;
  /// Returns when all requests so far are done. Not to be called on the thread itself.
  void wait_until_done();

 private:
  struct State;

  const ForkOrigin origin_;
  std::unique_ptr<State> state_;
};

}  // namespace berth
