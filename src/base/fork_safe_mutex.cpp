// SPDX-License-Identifier: Apache-2.0
#include "base/fork_safe_mutex.hpp"

#include <vector>

#include "base/fork.hpp"

namespace berth {

/// Never destroyed, because the process may fork after its static objects are destroyed.
struct ForkSafeMutex::Process {
  void lock_all() BERTH_NO_THREAD_SAFETY_ANALYSIS {
    mutex.lock();
    for (ForkSafeMutex* const each : mutexes) each->lock();
  }
  void unlock_all() BERTH_NO_THREAD_SAFETY_ANALYSIS {
    for (ForkSafeMutex* const each : mutexes) each->unlock();
    mutex.unlock();
  }

  Mutex mutex;
  std::vector<ForkSafeMutex*> mutexes BERTH_GUARDED_BY(mutex);
};

ForkSafeMutex::Process& ForkSafeMutex::process() {
  static Process& process = []() -> Process& {
    at_fork([] { ForkSafeMutex::process().lock_all(); },
            [] { ForkSafeMutex::process().unlock_all(); },
            [] { ForkSafeMutex::process().unlock_all(); });
    return *new Process;
  }();
  return process;
}

const bool ForkSafeMutex::is_prepared_ = (process(), true);

ForkSafeMutex::ForkSafeMutex() {
  const MutexLock lock(process().mutex);
  process().mutexes.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  const MutexLock lock(process().mutex);
  std::erase(process().mutexes, this);
}

}  // namespace berth
