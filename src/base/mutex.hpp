// SPDX-License-Identifier: Apache-2.0
// std::mutex with the annotations of clang's -Wthread-safety, so that a field used without its lock
// does not compile. libstdc++'s own mutex has none.
#pragma once

#include <mutex>

#ifdef __clang__
#define BERTH_ANNOTATE(x) __attribute__((x))
#else
#define BERTH_ANNOTATE(x)
#endif

#define BERTH_CAPABILITY(name) BERTH_ANNOTATE(capability(name))
#define BERTH_SCOPED_CAPABILITY BERTH_ANNOTATE(scoped_lockable)
#define BERTH_GUARDED_BY(mutex) BERTH_ANNOTATE(guarded_by(mutex))
#define BERTH_REQUIRES(...) BERTH_ANNOTATE(requires_capability(__VA_ARGS__))
#define BERTH_EXCLUDES(...) BERTH_ANNOTATE(locks_excluded(__VA_ARGS__))
#define BERTH_ACQUIRE(...) BERTH_ANNOTATE(acquire_capability(__VA_ARGS__))
#define BERTH_RELEASE(...) BERTH_ANNOTATE(release_capability(__VA_ARGS__))
#define BERTH_TRY_ACQUIRE(...) BERTH_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define BERTH_NO_THREAD_SAFETY_ANALYSIS BERTH_ANNOTATE(no_thread_safety_analysis)
/// For a lambda that a template calls at once, while the lock is held: the template cannot declare
/// that.
#define BERTH_UNDER_LOCK BERTH_NO_THREAD_SAFETY_ANALYSIS

namespace berth {

class BERTH_CAPABILITY("mutex") Mutex {
 public:
  void lock() BERTH_ACQUIRE() { mutex_.lock(); }
  void unlock() BERTH_RELEASE() { mutex_.unlock(); }
  bool try_lock() BERTH_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ConditionVariable;

  std::mutex mutex_;
};

class BERTH_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) BERTH_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() BERTH_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace berth
