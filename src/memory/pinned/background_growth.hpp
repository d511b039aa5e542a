// SPDX-License-Identifier: Apache-2.0
// A thread that performs growth which a caller should not wait for. It is started by the first
// request.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/fork.hpp"

namespace berth {

/// Threads  Any. No call waits for the work, but wait_until_done() and the end.
class BackgroundGrowth {
 public:
  /// What is asked for, by a small number; on the thread.
  using Work = std::function<void(std::size_t number)>;

  explicit BackgroundGrowth(Work work);
  /// Blocking  While work is being done; what is left is dropped. Not in a forked child, which has
  ///           no such thread.
  ~BackgroundGrowth();
  BackgroundGrowth(const BackgroundGrowth&) = delete;
  BackgroundGrowth& operator=(const BackgroundGrowth&) = delete;

  /// Has work(number) called soon; requests for one number that come together are one.
  /// Errors  std::exception: the thread cannot be made.
  void request(std::size_t number);
  /// No more work is begun. Blocking  As the destructor.
  void end();
  /// Whether it is ending, for work that takes long.
  [[nodiscard]] bool ends() const;
  /// Until all requests so far are done. Not on the thread itself.
  void wait_until_done();

 private:
  struct Thread;

  const ForkOrigin origin_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace berth
