// SPDX-License-Identifier: Apache-2.0
// A program's own pthread_mutex_lock overrides the C library's in all of its libraries.
#include "support/lock_counter.hpp"

#include <atomic>
#include <dlfcn.h>
#include <pthread.h>

namespace berth::test {
namespace {

std::atomic<std::uintptr_t> begin = 0;
std::atomic<std::size_t> size = 0;
std::atomic<std::uint64_t> count = 0;

}  // namespace

LockCounter::LockCounter(const void* object, std::size_t bytes) {
  count = 0;
  begin = reinterpret_cast<std::uintptr_t>(object);
  size = bytes;
}

LockCounter::~LockCounter() {
  size = 0;
}

std::uint64_t LockCounter::locks() const {
  return count;
}

#ifndef BERTH_UNDER_TSAN
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> lock = nullptr;  // a second lookup is harmless
  if (lock == nullptr) lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (reinterpret_cast<std::uintptr_t>(mutex) - begin < size) ++count;
  return lock.load()(mutex);
}
#endif

}  // namespace berth::test
