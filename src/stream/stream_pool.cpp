// SPDX-License-Identifier: Apache-2.0
#include "berth/stream_pool.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/check_choice.hpp"
#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/mutex.hpp"
#include "base/per_thread.hpp"
#include "device/device_context.hpp"
#include "device/report_live.hpp"
#include "driver/once_value.hpp"
#include "stream/capture.hpp"
#include "stream/idle_list.hpp"

namespace berth {
namespace {

using StreamItem = detail::PooledStream;

/// The streams cached by one thread. On its own cache lines, because the thread writes to it often.
class alignas(64) ThreadStreams {
 public:
  static constexpr std::size_t kKeptMax = 4;  ///< of each priority
  /// Priorities from 0 down, more than any device has. Streams of other priorities are not cached.
  static constexpr std::size_t kPriorities = 8;

  /// Called by the thread. Null if it caches none, or another thread has exclusive access.
  StreamItem* take(int priority) {
    const auto place = static_cast<std::size_t>(-std::int64_t{priority});
    if (place >= kPriorities || !lock_.try_enter()) [[unlikely]]
      return nullptr;
    StreamItem* const item = idle[place].pop();
    if (item != nullptr) {
      BERTH_DCHECK(item->priority == priority && item->leases.load() == 0);
      item->leases.store(1, std::memory_order_relaxed);
    }
    lock_.leave();
    return item;
  }
  /// Called by the thread. False, without effect, if the cache is full, other threads wait or have
  /// exclusive access, or the stream has another lease.
  bool keep(StreamItem& item) {
    const auto place = static_cast<std::size_t>(-std::int64_t{item.priority});
    if (place >= kPriorities || !lock_.try_enter()) [[unlikely]]
      return false;
    const bool keeps = accepts && idle[place].count() < kKeptMax &&
                       item.leases.load(std::memory_order_relaxed) == 1;
    if (keeps) {
      item.leases.store(0, std::memory_order_relaxed);
      idle[place].push(item);
    }
    lock_.leave();
    return keeps;
  }

  [[nodiscard]] BiasedLock& lock() { return lock_; }

  // Accessed by the thread under the pool's lock, or with ExclusiveAccess.
  std::array<IdleList<StreamItem>, kPriorities> idle;
  /// Whether the thread caches returned streams: false if other threads waited when it last held
  /// the lock.
  bool accepts = true;

 private:
  BiasedLock lock_;
};

using StreamThreads = PerThread<ThreadStreams>;

}  // namespace

/// The pool of its priority owns each stream. A stream without a lease is in one idle list, in the
/// list of captured streams, or being polled for the end of its capture. A stream with several
/// leases is in no list, and its count changes only under the lock.
struct BERTH_HIDDEN StreamPool::State {
  struct Pooled {
    Pooled(Stream created, int priority)
        : stream(std::move(created)),
          handle(stream.ref().context().pooled_streams(), stream.ref().native()),
          item{stream.ref(), priority, 1, nullptr} {}
    Stream stream;
    ScopedHandle<CUstream> handle;  ///< destroyed before the stream, whose handle may be reused
    StreamItem item;
  };
  struct PriorityPool {
    std::deque<Pooled> streams;
    IdleList<StreamItem> idle;
    IdleList<StreamItem> captured;  ///< possibly, until their captures end
    std::size_t being_created = 0;
    std::size_t being_polled = 0;  ///< for the end of their captures

    /// Whether another stream may be created.
    [[nodiscard]] bool has_room(std::size_t streams_max) const {
      return streams.size() - captured.count() - being_polled + being_created < streams_max;
    }
  };

  State(DeviceContext& context_, StreamPoolOptions options_)
      : context(context_),
        options(options_),
        threads(mutex, [this](ThreadStreams& ending) { reclaim(ending); }) {}

  [[nodiscard]] std::string name() const { return "streams of " + context.device().to_string(); }
  int clamp_priority(int priority);
  StreamItem& acquire_slow(int priority) BERTH_EXCLUDES(mutex);
  /// Moves streams whose captures have ended to the idle list.
  void poll_captured(int priority) BERTH_EXCLUDES(mutex);
  StreamItem* take_idle(PriorityPool& pool) BERTH_REQUIRES(mutex);
  /// Applies options.on_shortage; null if the caller should retry.
  StreamItem* acquire_on_shortage(PriorityPool& pool, int priority) BERTH_REQUIRES(mutex);
  /// Null if no stream is on lease because all are being created or polled.
  StreamItem* share(PriorityPool& pool) BERTH_REQUIRES(mutex);
  StreamItem& create(int priority) BERTH_EXCLUDES(mutex);
  /// Null if the stream does not belong to this pool.
  StreamItem* find(StreamRef stream) BERTH_REQUIRES(mutex);
  void give_back_slow(StreamItem& item) noexcept BERTH_EXCLUDES(mutex);
  /// Needs no host memory. Not in a forked child.
  [[nodiscard]] std::size_t leases() const BERTH_EXCLUDES(mutex);
  void reclaim(ThreadStreams& thread) BERTH_NO_THREAD_SAFETY_ANALYSIS;

  const ForkOrigin origin;
  DeviceContext& context;
  const StreamPoolOptions options;
  mutable Mutex mutex;
  ConditionVariable returned;  ///< also: created, or creation failed
  std::map<int, PriorityPool> pools BERTH_GUARDED_BY(mutex);
  std::size_t waiting BERTH_GUARDED_BY(mutex) = 0;
  mutable StreamThreads threads;

  OnceValue<int> priority_min;  ///< of the device's range
};

/// Clamps priorities below the device's range to its lowest number, as the driver does.
int StreamPool::State::clamp_priority(int priority) {
  if (priority >= 0) return priority;
  const int lowest_number = priority_min.get(context.driver(), [this] {
    const ContextScope scope(context);
    int least = 0;
    int greatest = 0;
    context.driver().ctx_get_stream_priority_range(&least, &greatest);
    return greatest;
  });
  return std::max(priority, lowest_number);
}

void StreamPool::State::reclaim(ThreadStreams& thread) {
  for (IdleList<StreamItem>& kept : thread.idle) {
    while (StreamItem* const item = kept.pop()) {
      BERTH_CHECK(item->leases.load(std::memory_order_relaxed) == 0);
      pools.at(item->priority).idle.push(*item);
    }
    BERTH_CHECK(kept.count() == 0);
  }
}

void StreamPool::State::poll_captured(int priority) {
  IdleList<StreamItem> polled;
  {
    const MutexLock lock(mutex);
    PriorityPool& pool = pools[priority];
    std::swap(polled, pool.captured);
    pool.being_polled += polled.count();
  }
  while (StreamItem* const item = polled.pop()) {
    const bool still_captured = [&] {
      try {
        return is_capturing(item->ref);
      } catch (...) {  // the next use of the stream reports it
        return true;
      }
    }();
    const MutexLock lock(mutex);
    PriorityPool& pool = pools.at(priority);
    BERTH_CHECK(pool.being_polled > 0 && item->leases.load(std::memory_order_relaxed) == 0);
    --pool.being_polled;
    (still_captured ? pool.captured : pool.idle).push(*item);
    returned.notify_all();
  }
}

StreamItem* StreamPool::State::take_idle(PriorityPool& pool) {
  StreamItem* const item = pool.idle.pop();
  if (item == nullptr) return nullptr;
  BERTH_CHECK(item->leases.load(std::memory_order_relaxed) == 0);
  item->leases.store(1, std::memory_order_relaxed);
  return item;
}

StreamItem& StreamPool::State::acquire_slow(int requested_priority) {
  origin.require_here(name());
  const int priority = clamp_priority(requested_priority);
  ThreadStreams* const local = threads.local_or_new();
  if (local != nullptr &&
      priority != requested_priority) {  // not looked up under this priority yet
    if (StreamItem* const kept = local->take(priority)) return *kept;
  }
  {
    const MutexLock lock(mutex);
    if (local != nullptr) local->accepts = waiting == 0;
    if (StreamItem* const item = take_idle(pools[priority])) return *item;
  }
  poll_captured(priority);
  {
    const MutexLock lock(mutex);
    PriorityPool& pool = pools[priority];
    for (;;) {
      if (StreamItem* const item = take_idle(pool)) return *item;
      BERTH_CHECK(pool.idle.count() + pool.captured.count() + pool.being_polled <=
                  pool.streams.size());
      if (pool.has_room(options.streams_max)) break;
      if (StreamItem* const item = acquire_on_shortage(pool, priority)) return *item;
    }
    ++pool.being_created;
  }
  return create(priority);
}

StreamItem* StreamPool::State::acquire_on_shortage(PriorityPool& pool, int priority) {
  {
    const StreamThreads::ExclusiveAccess exclusive(threads);
    exclusive.for_each([this](ThreadStreams& thread) { reclaim(thread); });
    if (StreamItem* const item = take_idle(pool)) return item;
    if (options.on_shortage == StreamShortage::share && !pool.streams.empty()) {
      if (StreamItem* const item = share(pool)) return item;
    }
    if (options.on_shortage == StreamShortage::fail) {
      throw Exhausted(
          format_text("{}: all {} of priority {} are on lease; accepted: as many at once as "
                      "StreamPoolOptions::streams_max",
                      name(), options.streams_max, priority));
    }
    exclusive.for_each([](ThreadStreams& thread) { thread.accepts = false; });
    ++waiting;
  }
  returned.wait(mutex);
  BERTH_CHECK(waiting > 0);
  --waiting;
  return nullptr;
}

/// With exclusive access, because a thread that returns the stream meanwhile must see the second
/// lease.
StreamItem* StreamPool::State::share(PriorityPool& pool) {
  const auto leases_of = [](const Pooled& pooled) {
    return pooled.item.leases.load(std::memory_order_relaxed);
  };
  // Minus 1, so that streams without a lease, which are captured, sort last.
  StreamItem& shared = std::min_element(pool.streams.begin(), pool.streams.end(),
                                        [&](const Pooled& a, const Pooled& b) {
                                          return leases_of(a) - 1 < leases_of(b) - 1;
                                        })
                           ->item;
  if (shared.leases.load(std::memory_order_relaxed) == 0) return nullptr;
  shared.leases.fetch_add(1, std::memory_order_relaxed);
  return &shared;
}

/// The driver call is made without the lock; being_created reserves capacity for the stream.
StreamItem& StreamPool::State::create(int priority) {
  try {
    Stream created(context, StreamOptions{.priority = priority});
    const MutexLock lock(mutex);
    PriorityPool& pool = pools.at(priority);
    BERTH_CHECK(pool.being_created > 0);
    Pooled& added = pool.streams.emplace_back(std::move(created), priority);
    --pool.being_created;
    returned.notify_all();
    return added.item;
  } catch (...) {
    const MutexLock lock(mutex);
    BERTH_CHECK(pools.at(priority).being_created > 0);
    --pools.at(priority).being_created;
    returned.notify_all();
    throw;
  }
}

StreamItem* StreamPool::State::find(StreamRef stream) {
  for (auto& [priority, pool] : pools) {
    for (Pooled& pooled : pool.streams) {
      if (pooled.item.ref == stream) return &pooled.item;
    }
  }
  return nullptr;
}

void StreamPool::State::give_back_slow(StreamItem& item) noexcept {
  if (!origin.is_here()) return;
  const MutexLock lock(mutex);
  const std::uint32_t leases = item.leases.fetch_sub(1, std::memory_order_relaxed);
  BERTH_CHECK(leases > 0);
  if (leases > 1) return;
  pools.at(item.priority).idle.push(item);
  returned.notify_all();  // a waiting thread may need another priority
}

std::size_t StreamPool::State::leases() const {
  const MutexLock lock(mutex);
  std::size_t count = 0;
  for (const auto& [priority, pool] : pools) {
    for (const Pooled& pooled : pool.streams)
      count += pooled.item.leases.load(std::memory_order_relaxed);
  }
  return count;
}

void check_options(const StreamPoolOptions& options) {
  if (options.streams_max == 0)
    throw InvalidArgument("StreamPoolOptions::streams_max is 0; accepted: 1 or more");
  check_choice("StreamPoolOptions::on_shortage", options.on_shortage, {"share", "wait", "fail"});
}

StreamPool::StreamPool(DeviceContext& context, StreamPoolOptions options)
    : state_(new State(context, options)) {
  check_options(options);
}

StreamPool::~StreamPool() {
  // In a forked child the state may be inconsistent, and destroying a condition variable waits for
  // its waiters.
  if (state_->origin.is_here()) {
    report_live(state_->context.driver(), state_->context.device(), "streams of ", state_->leases(),
                "lease", "each StreamLease and ForkJoin ends first");
  } else {
    keep_until_exit(std::move(state_));
  }
}

Lease<StreamPool> StreamPool::acquire(int priority) {
  ThreadStreams* const local = state_->threads.local();
  StreamItem* item = local != nullptr ? local->take(priority) : nullptr;
  if (item == nullptr) [[unlikely]]
    item = &state_->acquire_slow(priority);
  return {*this, *item};
}

void StreamPool::give_back(StreamItem& item) noexcept {
  BERTH_CHECK_USE(item.leases.load(std::memory_order_relaxed) > 0,
                  "a StreamLease ends whose stream StreamPool::give_back() has returned before");
  ThreadStreams* const local = state_->threads.local();
  if (local == nullptr || !local->keep(item)) state_->give_back_slow(item);
}

void StreamPool::give_back(StreamRef stream) {
  if (!state_->origin.is_here()) return;
  StreamItem* item = nullptr;
  {
    const MutexLock lock(state_->mutex);
    item = state_->find(stream);
  }
  if (item == nullptr || item->leases.load(std::memory_order_relaxed) == 0) {
    throw InvalidArgument(format_text(
        "{}: the returned stream is not on lease; accepted: a stream of this pool, once",
        state_->name()));
  }
  give_back(*item);
}

void StreamPool::set_aside(StreamRef stream) noexcept {
  if (!state_->origin.is_here()) return;
  const MutexLock lock(state_->mutex);
  StreamItem* const item = state_->find(stream);
  if (item == nullptr) return;
  const std::uint32_t leases = item->leases.fetch_sub(1, std::memory_order_relaxed);
  BERTH_CHECK(leases > 0);
  if (leases == 1) state_->pools.at(item->priority).captured.push(*item);
  state_->returned.notify_all();  // another stream may be created
}

std::size_t StreamPool::streams_created() const {
  state_->origin.require_here(state_->name());
  const MutexLock lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [priority, pool] : state_->pools) count += pool.streams.size();
  return count;
}

std::size_t StreamPool::leases_live() const {
  state_->origin.require_here(state_->name());
  return state_->leases();
}

}  // namespace berth
