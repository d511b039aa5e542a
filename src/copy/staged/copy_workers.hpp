// SPDX-License-Identifier: Apache-2.0
// The threads that do the host's work for staged copies.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "copy/staged/host_work.hpp"

namespace berth {

/// Threads  Safe from any thread.
class CopyWorkers {
 public:
  static constexpr std::size_t kMax = 64;

  /// 1 to kMax. Starts no thread.
  CopyWorkers(HostWork& work, std::size_t count) : work_(work), count_(count) {}
  /// Nothing is under way any more. In a forked child there are no threads to end.
  ~CopyWorkers();
  CopyWorkers(const CopyWorkers&) = delete;
  CopyWorkers& operator=(const CopyWorkers&) = delete;

  /// They run from now on; fewer where the system has no more threads. False where there are none.
  bool start() noexcept;

 private:
  void run();

  HostWork& work_;
  const std::size_t count_;
  Mutex mutex_;
  bool started_ BERTH_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
