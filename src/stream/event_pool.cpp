// SPDX-License-Identifier: Apache-2.0
#include "berth/event_pool.hpp"

#include <unordered_map>
#include <vector>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Every event that exists belongs to `events`; those not on lease are in one of the idle lists,
/// last in first out. The idle lists have room for every event, so that giving back cannot fail.
struct EventPool::State {
  struct Pooled {
    Event event;
    bool timing;
    bool leased;
  };

  std::vector<CUevent>& idle(bool timing) BERTH_REQUIRES(mutex) {
    return timing ? idle_timing : idle_plain;
  }

  DeviceContext& context;
  mutable Mutex mutex;
  std::unordered_map<CUevent, Pooled> events BERTH_GUARDED_BY(mutex);
  std::vector<CUevent> idle_plain BERTH_GUARDED_BY(mutex);
  std::vector<CUevent> idle_timing BERTH_GUARDED_BY(mutex);
};

EventPool::EventPool(DeviceContext& context) : state_(new State{context, {}, {}, {}, {}}) {}

EventPool::~EventPool() = default;

Lease<EventPool> EventPool::acquire(EventOptions options) {
  {
    const MutexLock lock(state_->mutex);
    std::vector<CUevent>& idle = state_->idle(options.timing);
    if (!idle.empty()) {
      const EventRef event(state_->context, idle.back());
      idle.pop_back();
      state_->events.at(event.native()).leased = true;
      return {*this, event};
    }
  }
  Event created(state_->context, options);  // a driver call, so not under the lock
  const EventRef event = created.ref();
  const MutexLock lock(state_->mutex);
  state_->idle(options.timing).reserve(state_->events.size() + 1);
  state_->events.emplace(event.native(), State::Pooled{std::move(created), options.timing, true});
  return {*this, event};
}

void EventPool::give_back(EventRef event) noexcept {
  const MutexLock lock(state_->mutex);
  const auto found = state_->events.find(event.native());
  BERTH_CHECK(found != state_->events.end() && found->second.leased);
  found->second.leased = false;
  state_->idle(found->second.timing).push_back(event.native());
}

std::size_t EventPool::events_created() const {
  const MutexLock lock(state_->mutex);
  return state_->events.size();
}

std::size_t EventPool::leases_live() const {
  const MutexLock lock(state_->mutex);
  return state_->events.size() - state_->idle_plain.size() - state_->idle_timing.size();
}

}  // namespace berth
