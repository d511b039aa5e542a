// SPDX-License-Identifier: Apache-2.0
// The threads that do the host work of staged copies.
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
  /// No copy may be pending. In a forked child there are no threads to join.
  ~CopyWorkers();
  CopyWorkers(const CopyWorkers&) = delete;
  CopyWorkers& operator=(const CopyWorkers&) = delete;

  /// Starts the threads once; fewer if the system cannot create all. False if there are none.
  bool start() noexcept;

 private:
  void run();

  HostWork& work_;
  const std::size_t count_;
  Mutex mutex_;
  std::vector<std::thread> threads_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
