// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/copy_workers.hpp"

#include <exception>
#include <pthread.h>

namespace berth {

CopyWorkers::~CopyWorkers() {
  work_.stop();
  const MutexLock lock(mutex_);
  for (std::thread& thread : threads_) thread.join();
}

bool CopyWorkers::start() noexcept {
  const MutexLock lock(mutex_);
  if (!threads_.empty()) return true;
  try {
    threads_.reserve(count_);
    while (threads_.size() < count_) threads_.emplace_back([this] { run(); });
  } catch (const std::exception&) {  // fewer threads
  }
  return !threads_.empty();
}

void CopyWorkers::run() {
  pthread_setname_np(pthread_self(), "berth copies");
  while (work_.wait_for_piece()) {
    while (work_.process_piece() || work_.poll_progress()) continue;
  }
}

}  // namespace berth
