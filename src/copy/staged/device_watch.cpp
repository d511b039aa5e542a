// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/device_watch.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <pthread.h>

#include "stream/capture.hpp"

namespace berth {
namespace {

// A query takes four driver calls: read the current context, replace it, query, and restore it. Two
// lists of copies are queried. The total stays below the bound in docs/staging.md.
constexpr std::size_t kCallsPerQuery = 4;
constexpr std::size_t kCallsOfSecond = 1'000;
static_assert(2 * DeviceWatch::kStreamsPerRound * kCallsPerQuery * DeviceWatch::kRoundsPerSecond <=
              kCallsOfSecond);

}  // namespace

DeviceWatch::~DeviceWatch() {
  std::thread ending;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    ending = std::move(thread_);
    changed_.notify_all();
  }
  if (ending.joinable()) ending.join();
}

bool DeviceWatch::start(const Driver& driver) noexcept {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this, &driver] { run(driver); });
    } catch (const std::exception&) {  // the driver copies
    }
  }
  return thread_.joinable();
}

void DeviceWatch::wake() noexcept {
  const MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void DeviceWatch::wake_for_owner() noexcept {
  const MutexLock lock(mutex_);
  has_owner_ = true;
  changed_.notify_all();
}

bool DeviceWatch::has_copies() const {
  return std::ranges::any_of(works_,
                             [](const HostWork* work) { return work->copies_under_way() > 0; });
}

bool DeviceWatch::sleep(Time next_round) {
  {
    const MutexLock lock(mutex_);
    woken_ = false;
  }
  const bool is_busy = has_copies();
  const MutexLock lock(mutex_);
  while (!stopped_ && !is_busy && !woken_ && !has_owner_) changed_.wait(mutex_);
  while (!stopped_ && !has_owner_ && std::chrono::steady_clock::now() < next_round)
    changed_.wait_until(mutex_, next_round);
  has_owner_ = false;
  return !stopped_;
}

void DeviceWatch::run(const Driver& driver) {
  pthread_setname_np(pthread_self(), "berth watch");
  const RelaxedCapture relaxed(driver);  // marks are never captured; other threads may be capturing
  Time next_round = std::chrono::steady_clock::now() + kPeriod;
  while (sleep(next_round)) {
    for (HostWork* const work : works_) work->release_owners();
    if (std::chrono::steady_clock::now() < next_round) continue;
    for (HostWork* const work : works_) work->query_device(kStreamsPerRound);
    next_round = std::chrono::steady_clock::now() + kPeriod;
  }
}

}  // namespace berth
