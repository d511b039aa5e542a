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
#include "device/report_live.hpp"
#include "stream/idle_list.hpp"
#include "stream/pool_options.hpp"

namespace berth {
namespace {

using EventItem = detail::PooledEvent;

/// Idle events: without timing, and with timing.
using IdleEvents = std::array<IdleList<EventItem>, 2>;

/// The events cached by one thread. On its own cache lines, because the thread writes to it often.
class alignas(64) ThreadEvents {
 public:
  static constexpr std::size_t kKeptMax = 32;  ///< of each kind
  static constexpr std::size_t kBatch = kKeptMax / 2;

  /// Called by the thread. Null if it caches none, or another thread has exclusive access.
  EventItem* take(bool timing) {
    if (!lock_.try_enter()) [[unlikely]]
      return nullptr;
    EventItem* const item = idle[timing].pop();
    BERTH_DCHECK(item == nullptr || (item->timing == timing && !item->on_lease));
    lock_.leave();
    return item;
  }
  /// Called by the thread. False if the cache is full, or another thread has exclusive access.
  bool keep(EventItem& item) {
    if (!lock_.try_enter()) [[unlikely]]
      return false;
    const bool has_room = idle[item.timing].count() < kKeptMax;
    if (has_room) idle[item.timing].push(item);
    lock_.leave();
    return has_room;
  }

  [[nodiscard]] BiasedLock& lock() { return lock_; }

  IdleEvents idle;  ///< accessed by the thread under the pool's lock, or with ExclusiveAccess

 private:
  BiasedLock lock_;
};

using EventThreads = PerThread<ThreadEvents>;

}  // namespace

/// `events` owns each event; an event without a lease is in one idle list.
struct BERTH_HIDDEN EventPool::State {
  struct Pooled {
    Event event;
    ScopedHandle<CUevent> handle;  ///< destroyed before the event, whose handle may be reused
    EventItem item;
  };

  State(DeviceContext& context_, EventPoolOptions options_)
      : context(context_),
        options(options_),
        threads(mutex, [this](ThreadEvents& ending) { reclaim(ending); }) {}

  [[nodiscard]] std::string name() const { return "events of " + context.device().to_string(); }

  EventItem& acquire_slow(EventOptions requested);
  EventItem* take_shared(bool timing, ThreadEvents* local) BERTH_REQUIRES(mutex);
  EventItem& create(EventOptions requested) BERTH_EXCLUDES(mutex);
  void give_back_slow(EventItem& item) noexcept BERTH_EXCLUDES(mutex);
  /// Needs no host memory. Not in a forked child.
  [[nodiscard]] std::size_t leases() const BERTH_EXCLUDES(mutex);
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
  using Events = std::unordered_map<CUevent, Pooled>;

  Events events BERTH_GUARDED_BY(mutex);
  std::size_t being_created BERTH_GUARDED_BY(mutex) = 0;
  IdleEvents idle BERTH_GUARDED_BY(mutex);
  mutable EventThreads threads;
};

/// An event for the calling thread, and a batch for its cache.
EventItem* EventPool::State::take_shared(bool timing, ThreadEvents* local) {
  if (idle[timing].count() == 0 && events.size() + being_created >= options.events_max) {
    const EventThreads::ExclusiveAccess exclusive(threads);
    exclusive.for_each([this](ThreadEvents& thread) { reclaim(thread); });
  }
  EventItem* const item = idle[timing].pop();
  BERTH_CHECK(item == nullptr || (item->timing == timing && !item->on_lease));
  // Under the lock no other thread has access, so this thread need not enter.
  if (local != nullptr) idle[timing].move_to(local->idle[timing], ThreadEvents::kBatch);
  return item;
}

EventItem& EventPool::State::acquire_slow(EventOptions requested) {
  origin.require_here(name());
  ThreadEvents* const local = threads.local_or_new();
  Events::node_type replaced;  // destroyed without the lock, because that calls the driver
  {
    const MutexLock lock(mutex);
    if (EventItem* const item = take_shared(requested.timing, local)) return *item;
    if (events.size() + being_created >= options.events_max) {
      EventItem* const other_kind = idle[!requested.timing].pop();
      if (other_kind == nullptr) {
        throw Exhausted(format_text(
            "{}: all {} are on lease; accepted: as many at once as EventPoolOptions::events_max",
            name(), options.events_max));
      }
      replaced = events.extract(other_kind->ref.native());
      BERTH_CHECK(!replaced.empty());
    }
    ++being_created;
  }
  replaced = {};
  return create(requested);
}

/// The driver call is made without the lock; being_created reserves capacity for the event.
EventItem& EventPool::State::create(EventOptions requested) {
  try {
    Event created(context, requested);
    const EventRef ref = created.ref();
    const MutexLock lock(mutex);
    const auto added =
        events.emplace(ref.native(), Pooled{std::move(created),
                                            {context.pooled_events(), ref.native()},
                                            {ref, requested.timing, false, nullptr}});
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
  ThreadEvents* local = nullptr;
  try {
    // An allocator returns events under its own lock, for which an exiting thread may wait.
    local = threads.local_or_new(EventThreads::Blocking::no);
  } catch (const std::bad_alloc&) {  // then the thread has no cache
  }
  const MutexLock lock(mutex);
  idle[item.timing].push(item);
  if (local != nullptr) local->idle[item.timing].move_to(idle[item.timing], ThreadEvents::kBatch);
}

std::size_t EventPool::State::leases() const {
  const MutexLock lock(mutex);
  std::size_t unused = idle[0].count() + idle[1].count();
  const EventThreads::ExclusiveAccess exclusive(threads);
  exclusive.for_each([&](const ThreadEvents& thread) {
    unused += thread.idle[0].count() + thread.idle[1].count();
  });
  BERTH_CHECK(unused <= events.size());
  return events.size() - unused;
}

void check_options(const EventPoolOptions& options) {
  if (options.events_max == 0)
    throw InvalidArgument("EventPoolOptions::events_max is 0; accepted: 1 or more");
}

EventPool::EventPool(DeviceContext& context, EventPoolOptions options)
    : state_(new State(context, options)) {
  check_options(options);
}

EventPool::~EventPool() {
  if (state_->origin.is_here()) {
    report_live(state_->context.driver(), state_->context.device(), "events of ", state_->leases(),
                "lease", "each EventLease and Transfer ends first");
  } else {
    keep_until_exit(std::move(state_));
  }
}

Lease<EventPool> EventPool::acquire(EventOptions options) {
  if (options.interprocess) [[unlikely]] {
    throw InvalidArgument(
        "pooled events cannot be interprocess; accepted: an Event that is not pooled");
  }
  ThreadEvents* const local = state_->threads.local();
  EventItem* item = local != nullptr ? local->take(options.timing) : nullptr;
  if (item == nullptr) [[unlikely]]
    item = &state_->acquire_slow(options);
  item->on_lease = true;
  return {*this, *item};
}

void EventPool::give_back(EventItem& item) noexcept {
  BERTH_CHECK_USE(item.on_lease,
                  "an EventLease ends whose event EventPool::give_back() has returned before");
  item.on_lease = false;
  ThreadEvents* const local = state_->threads.local();
  if (local == nullptr || !local->keep(item)) state_->give_back_slow(item);
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
        format_text("{}: the returned event is not on lease; accepted: an event of this pool, once",
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
  return state_->leases();
}

}  // namespace berth
