// SPDX-License-Identifier: Apache-2.0
#include "pjrt/waiters.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "pjrt/event_watch.hpp"

namespace berth::pjrt {
namespace {

constexpr int kApiBits = 16;

/// More callbacks that have not come are not remembered.
constexpr std::size_t kWithoutCallbackMax = 4096;

}  // namespace

std::size_t api_number_of(WaiterId id) {
  return id & ((std::uintptr_t{1} << kApiBits) - 1);
}

Waiter::Waiter(EventWatch& watch_, const char* function_) : watch(watch_), function(function_) {
  watch.add_waiter();
}

void Waiter::end(std::exception_ptr failure) noexcept {
  BERTH_CHECK(done != nullptr);  // an operation ends once
  event = nullptr;
  const DeviceBackend::Done ended = std::move(done);
  watch.remove_waiter();
  ended(std::move(failure));  // from here on the watch may be gone
}

void Waiter::withdraw() noexcept {
  BERTH_CHECK(done == nullptr);  // the caller has it, or the operation would not end
  if (event != nullptr) event->release();
  watch.remove_waiter();
}

WaiterId Waiters::add(std::shared_ptr<Waiter> waiter) {
  const std::size_t number = waiter->watch.api().number();
  BERTH_CHECK(number < std::uintptr_t{1} << kApiBits);  // or a callback would find another plug-in
  BERTH_CHECK(waiter->event != nullptr && waiter->done != nullptr);  // a callback may come at once
  const MutexLock lock(mutex_);
  const WaiterId id = ++serial_ << kApiBits | number;
  waiters_.emplace(id, std::move(waiter));
  return id;
}

std::shared_ptr<Waiter> Waiters::extract(WaiterId id) noexcept {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return nullptr;
  std::shared_ptr<Waiter> taken = std::move(found->second);
  waiters_.erase(found);
  return taken;
}

std::shared_ptr<Waiter> Waiters::take(WaiterId id) noexcept {
  const MutexLock lock(mutex_);
  return extract(id);
}

std::shared_ptr<Waiter> Waiters::take_before_callback(WaiterId id) {
  const MutexLock lock(mutex_);
  if (!waiters_.contains(id)) return nullptr;
  without_callback_.insert(id);
  if (without_callback_.size() > kWithoutCallbackMax) {
    forgotten_to_ = std::max(forgotten_to_, *without_callback_.begin());
    without_callback_.erase(without_callback_.begin());
  }
  return extract(id);
}

void Waiters::ask_from_now(WaiterId id) noexcept {
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  const auto found = waiters_.find(id);
  if (found != waiters_.end()) found->second->start = now;
}

Waiters::Callback Waiters::judge(WaiterId id) noexcept {
  const MutexLock lock(mutex_);
  const std::uintptr_t serial = id >> kApiBits;
  if (serial == 0 || serial > serial_) return Callback::of_nothing;
  const bool is_late = without_callback_.erase(id) > 0 || id <= forgotten_to_;
  return is_late ? Callback::late : Callback::second;
}

std::vector<Waiters::Asked> Waiters::waiting_since(const EventWatch& watch,
                                                   std::chrono::steady_clock::time_point start) {
  std::vector<Asked> found;
  const MutexLock lock(mutex_);
  for (const auto& [id, waiter] : waiters_) {
    if (&waiter->watch == &watch && waiter->start <= start)
      found.push_back({id, waiter->function, waiter->event});
  }
  return found;
}

Waiters& waiters() {
  static auto& kept = *new Waiters;
  return kept;
}

}  // namespace berth::pjrt
