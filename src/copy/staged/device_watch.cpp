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

bool DeviceWatch::start(const Driver& driver) noexcept {
  const MutexLock lock(thread_.mutex);
  try {
    thread_.start("copies of pageable memory", [this, &driver] { run(driver); });
  } catch (const std::exception&) {  // the driver copies
  }
  return thread_.is_started();
}

void DeviceWatch::wake() noexcept {
  const MutexLock lock(thread_.mutex);
  woken_ = true;
  thread_.changed.notify_all();
}

void DeviceWatch::wake_for_owner() noexcept {
  const MutexLock lock(thread_.mutex);
  has_owner_ = true;
  thread_.changed.notify_all();
}

bool DeviceWatch::has_copies() const {
  return std::ranges::any_of(works_,
                             [](const HostWork* work) { return work->copies_under_way() > 0; });
}

bool DeviceWatch::sleep(Time next_round) {
  {
    const MutexLock lock(thread_.mutex);
    woken_ = false;
  }
  const bool is_busy = has_copies();
  const MutexLock lock(thread_.mutex);
  while (!thread_.is_ending() && !is_busy && !woken_ && !has_owner_)
    thread_.changed.wait(thread_.mutex);
  while (!thread_.is_ending() && !has_owner_ && std::chrono::steady_clock::now() < next_round)
    thread_.changed.wait_until(thread_.mutex, next_round);
  has_owner_ = false;
  return !thread_.is_ending();
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
