// SPDX-License-Identifier: Apache-2.0
#include "berth/event_pool.hpp"

#include <array>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/mutex.hpp"
#include "base/per_thread.hpp"
#include "device/device_context.hpp"
#include "stream/idle_list.hpp"

namespace berth {
namespace {

using EventItem = detail::PooledEvent;

/// Idle events by kind: without timing, with.
using IdleEvents = std::array<IdleList<EventItem>, 2>;

/// The events that one thread keeps. On its own cache lines, because its thread often writes to it.
class alignas(64) ThreadEvents {
 public:
  static constexpr std::size_t kKeptMax = 32;  ///< of each kind
  static constexpr std::size_t kBatch = kKeptMax / 2;

  /// By the thread. Null if it keeps none, or another thread has exclusive access.
  EventItem* take(bool timing) {
    if (!lock_.try_enter()) [[unlikely]]
      return nullptr;
    EventItem* const item = idle[timing].pop();
    BERTH_DCHECK(item == nullptr || (item->timing == timing && !item->on_lease));
    lock_.leave();
    return item;
  }
  /// By the thread. False if it keeps enough, or another thread has exclusive access.
  bool keep(EventItem& item) {
    if (!lock_.try_enter()) [[unlikely]]
      return false;
    const bool has_room = idle[item.timing].count() < kKeptMax;
    if (has_room) idle[item.timing].push(item);
    lock_.leave();
    return has_room;
  }

  [[nodiscard]] BiasedLock& lock() { return lock_; }

  IdleEvents idle;  ///< for the thread under the pool's lock, or any in a ExclusiveAccess

 private:
  BiasedLock lock_;
};

using EventThreads = PerThread<ThreadEvents>;

}  // namespace

/// Each event belongs to `events`; an event without a lease is in one idle list.
struct EventPool::State {
  struct Pooled {
    Event event;
    ScopedHandle<CUevent> handle;  ///< ends before the event, whose handle may be reused
    EventItem item;
  };

  State(DeviceContext& context_, EventPoolOptions options_)
      : context(context_),
        options(options_),
        threads(mutex, [this](ThreadEvents& ending) { reclaim(ending); }) {}

  [[nodiscard]] std::string name() const { return "events of " + context.device().to_string(); }

  EventItem& acquire_slow(EventOptions wanted);
  EventItem* take_shared(bool timing, ThreadEvents* mine) BERTH_REQUIRES(mutex);
  EventItem& create(EventOptions wanted) BERTH_EXCLUDES(mutex);
  void give_back_slow(EventItem& item) noexcept BERTH_EXCLUDES(mutex);
  void reclaim(ThreadEvents& thread) BERTH_NO_THREAD_SAFETY_ANALYSIS {
    for (const std::size_t kind : {0, 1}) {
      thread.idle[kind].move_to(idle[kind], thread.idle[kind].count());
      BERTH_CHECK(thread.idle[kind].count() == 0);
    }
    BERTH_CHECK(idle[0].count() + idle[1].count() <= events.size());
  }

  const ForkOrigin origin;
  DeviceContext& context;
  const EventPoolOptions options;
  mutable Mutex mutex;
  std::unordered_map<CUevent, Pooled> events BERTH_GUARDED_BY(mutex);
  std::size_t being_created BERTH_GUARDED_BY(mutex) = 0;
  IdleEvents idle BERTH_GUARDED_BY(mutex);
  mutable EventThreads threads;
};

/// An event for the calling thread, and a batch for its cache.
EventItem* EventPool::State::take_shared(bool timing, ThreadEvents* mine) {
  if (idle[timing].count() == 0 && events.size() + being_created >= options.events_max) {
    const EventThreads::ExclusiveAccess exclusive(threads);
    exclusive.for_each([this](ThreadEvents& thread) { reclaim(thread); });
  }
  EventItem* const item = idle[timing].pop();
  BERTH_CHECK(item == nullptr || (item->timing == timing && !item->on_lease));
  // Under the lock no other thread can be inside, so that this one needs no entry.
  if (mine != nullptr) idle[timing].move_to(mine->idle[timing], ThreadEvents::kBatch);
  return item;
}

EventItem& EventPool::State::acquire_slow(EventOptions wanted) {
  origin.require_here(name());
  ThreadEvents* const mine = threads.mine_or_new();
  {
    const MutexLock lock(mutex);
    if (EventItem* const item = take_shared(wanted.timing, mine)) return *item;
    if (events.size() + being_created >= options.events_max) {
      throw Exhausted(format_text(
          "{}: all {} are on lease; accepted: as many at once as EventPoolOptions::events_max",
          name(), options.events_max));
    }
    ++being_created;
  }
  return create(wanted);
}

/// The driver call is made without the lock; being_created holds the event's place.
EventItem& EventPool::State::create(EventOptions wanted) {
  try {
    Event created(context, wanted);
    const EventRef ref = created.ref();
    const MutexLock lock(mutex);
    const auto added = events.emplace(ref.native(), Pooled{std::move(created),
                                                           {context.pooled_events(), ref.native()},
                                                           {ref, wanted.timing, false, nullptr}});
    BERTH_CHECK(added.second && being_created > 0 && events.size() <= options.events_max);
    --being_created;
    return added.first->second.item;
  } catch (...) {
    const MutexLock lock(mutex);
    BERTH_CHECK(being_created > 0);
    --being_created;
    throw;
  }
}

void EventPool::State::give_back_slow(EventItem& item) noexcept {
  if (!origin.is_here()) return;
  ThreadEvents* mine = nullptr;
  try {
    // An allocator gives events back under its own lock, for which a thread that ends may wait.
    mine = threads.mine_or_new(EventThreads::Blocking::no);
  } catch (const std::bad_alloc&) {  // then the thread keeps nothing
  }
  const MutexLock lock(mutex);
  idle[item.timing].push(item);
  if (mine != nullptr) mine->idle[item.timing].move_to(idle[item.timing], ThreadEvents::kBatch);
}

EventPool::EventPool(DeviceContext& context, EventPoolOptions options)
    : state_(new State(context, options)) {
  if (options.events_max == 0) {
    throw InvalidArgument("EventPoolOptions::events_max is 0; accepted: 1 or more");
  }
}

EventPool::~EventPool() {
  if (!state_->origin.is_here()) keep_until_exit(std::move(state_));
}

Lease<EventPool> EventPool::acquire(EventOptions options) {
  if (options.interprocess) [[unlikely]] {
    throw InvalidArgument(
        "pooled events are not for other processes; accepted: an Event of one's own");
  }
  ThreadEvents* const mine = state_->threads.mine();
  EventItem* item = mine != nullptr ? mine->take(options.timing) : nullptr;
  if (item == nullptr) [[unlikely]]
    item = &state_->acquire_slow(options);
  item->on_lease = true;
  return {*this, *item};
}

void EventPool::give_back(EventItem& item) noexcept {
  BERTH_CHECK(item.on_lease);
  item.on_lease = false;
  ThreadEvents* const mine = state_->threads.mine();
  if (mine == nullptr || !mine->keep(item)) state_->give_back_slow(item);
}

void EventPool::give_back(EventRef event) {
  if (!state_->origin.is_here()) return;
  EventItem* item = nullptr;
  {
    const MutexLock lock(state_->mutex);
    const auto found = state_->events.find(event.native());
    if (found != state_->events.end()) item = &found->second.item;
  }
  if (item == nullptr || !item->on_lease) {
    throw InvalidArgument(
        format_text("{}: what is given back is not on lease; accepted: an event of this pool, once",
                    state_->name()));
  }
  give_back(*item);
}

std::size_t EventPool::events_created() const {
  state_->origin.require_here(state_->name());
  const MutexLock lock(state_->mutex);
  return state_->events.size();
}

std::size_t EventPool::leases_live() const {
  state_->origin.require_here(state_->name());
  const MutexLock lock(state_->mutex);
  std::size_t idle = state_->idle[0].count() + state_->idle[1].count();
  const EventThreads::ExclusiveAccess exclusive(state_->threads);
  exclusive.for_each(
      [&](const ThreadEvents& thread) { idle += thread.idle[0].count() + thread.idle[1].count(); });
  BERTH_CHECK(idle <= state_->events.size());
  return state_->events.size() - idle;
}

}  // namespace berth
