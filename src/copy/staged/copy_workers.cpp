// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/copy_workers.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <pthread.h>

namespace berth {
namespace {

// How long a thread sleeps between two looks at a device that is busy. A slot is in use for some 75 us
// (4 MiB at 55 GB/s), and a copy has several: what comes late by one nap delays nothing.
constexpr std::chrono::microseconds kFirstNap{20};
constexpr std::chrono::microseconds kLongestNap{250};

}  // namespace

CopyWorkers::~CopyWorkers() {
  work_.stop();
  const MutexLock lock(mutex_);
  for (std::thread& thread : threads_) thread.join();
}

bool CopyWorkers::start() noexcept {
  const MutexLock lock(mutex_);
  if (started_) return !threads_.empty();
  started_ = true;
  try {
    threads_.reserve(count_);
    while (threads_.size() < count_) threads_.emplace_back([this] { run(); });
  } catch (const std::exception&) {  // a thread less, or several
  }
  return !threads_.empty();
}

void CopyWorkers::run() {
  pthread_setname_np(pthread_self(), "berth copies");
  std::chrono::microseconds nap = kFirstNap;
  while (work_.sleep(nap)) {
    try {
      const bool did_something = work_.help() || work_.look();
      nap = did_something ? kFirstNap : std::min(2 * nap, kLongestNap);
      while (work_.help() || work_.look()) continue;
    } catch (const std::bad_alloc&) {
      nap = kLongestNap;  // looked again later
    }
  }
}

}  // namespace berth
