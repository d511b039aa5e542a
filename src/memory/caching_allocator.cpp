// SPDX-License-Identifier: Apache-2.0
#include "memory/caching_allocator.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/format.hpp"
#include "memory/source/mapping_notices.hpp"

namespace berth {
namespace {

/// The bound of a request: far more than any device has, and small enough that sums do not
/// overflow.
constexpr std::size_t kRequestBytesMax = std::size_t{1} << 47;
/// The driver runs the destructors of user objects on a thread of its own, some time after the last
/// launch of a graph that is destroyed. Source: CUDA Programming Guide, "CUDA User Objects".
constexpr std::chrono::milliseconds kGraphPatience{100};

}  // namespace

CachingAllocator::CachingAllocator(const Driver& driver, Options options,
                                   const MakeSource& make_source)
    : driver_(driver),
      cross_stream_reuse_(options.cross_stream_reuse),
      others_(std::move(options.others)),
      on_pressure_(std::move(options.on_pressure)),
      heap_(std::move(options.name)),
      order_(heap_, driver, std::move(options.events), options.is_host_memory),
      reserve_(heap_, order_, driver,
               {.budget = options.budget,
                .headroom_bytes = options.headroom_bytes,
                .isolates_streams = isolates_streams(),
                .slack_max = options.slack_max},
               make_source(heap_.blocks)) {
  heap_.keeps_memory = options.keeps_memory;
}

CachingAllocator::~CachingAllocator() {
  if (!origin_.is_here()) {
    keep_until_exit(reserve_.abandon());
    return;
  }
  try {
    while (order_.wait_for_oldest(std::numeric_limits<std::uint64_t>::max())) continue;
    order_.recover_quarantined();
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::error, name(), ": at its end", error);
  }
  await_graphs();
  {
    const MutexLock lock(heap_.mutex);
    if (heap_.counters.blocks_in_graphs.current > 0) {
      driver_.report(Severity::warning, [this]() BERTH_UNDER_LOCK {
        return format_text(
            "{}: captured graphs may still use blocks of memory that is freed now ({}); do not "
            "launch such graphs any more",
            name(), heap_.counters.blocks_in_graphs.current);
      });
    }
  }
  reserve_.give_back_all();
}

void CachingAllocator::await_graphs() noexcept {
  const auto end = std::chrono::steady_clock::now() + kGraphPatience;
  for (;;) {
    {
      const MutexLock lock(heap_.mutex);
      order_.release_unheld();
      if (heap_.counters.blocks_in_graphs.current == 0) return;
    }
    if (std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void* CachingAllocator::allocate_slow(std::size_t bytes, std::optional<StreamRef> stream,
                                      bool may_wait) {
  if (bytes == 0) return nullptr;
  require_origin();
  const std::size_t rounded = align_up(std::min(bytes, kRequestBytesMax), kBlockAlignment);
  Request request(rounded, bytes, stream, heap_.my_cache_or_new());
  request.may_wait = may_wait;
  {
    const MutexLock lock(heap_.mutex);
    request.owner = owner_of(request);
    request.consolidates_first = should_consolidate(request);
    if (!request.consolidates_first && take_in_lock(request)) return request.data;
  }
  return descend(request);
}

OwnerId CachingAllocator::owner_of(const Request& request) {
  ThreadCache* const cache = request.cache;
  const StreamKey key = request.stream ? key_of(*request.stream) : kNoStream;
  if (cache != nullptr) {
    if (const auto known = cache->owner_of(key)) return *known;
  }
  heap_.require_awake();
  const OwnerId owner = request.stream ? heap_.streams.id_of(*request.stream) : kUnowned;
  if (cache != nullptr) cache->add_route(owner, key);
  return owner;
}

void CachingAllocator::deallocate_slow(void* data) {
  if (data == nullptr || !origin_.is_here()) return;
  ThreadCache* const cache = heap_.my_cache_or_new();
  StreamOrder::Unsealed unsealed;
  {
    const MutexLock lock(heap_.mutex);
    Block& block = heap_.require_live(data, "free");
    if (cache != nullptr) heap_.enable_caching(*cache, block.owner);
    const bool should_flush = cache != nullptr && cache->should_flush();
    Ledger& ledger = heap_.ledger_of(cache);
    ledger.freed(block.bytes_requested(), block.bytes);
    --ledger.blocks_through_heap;
    if (!order_.defer(block, ledger, unsealed)) heap_.release(block);
    if (unsealed.count > 0) ++marking_;
    if (should_flush) heap_.flush_cache(*cache);
  }
  if (unsealed.count == 0) return;
  // Now and not by a later poll, because the caller may destroy the stream after this call.
  order_.seal(unsealed);
  --marking_;
}

void CachingAllocator::record_stream(void* data, StreamRef stream) {
  if (data == nullptr) return;
  require_origin();
  order_.record_stream(data, stream);
}

void CachingAllocator::record_use(void* data, StreamRef stream) {
  if (data == nullptr) return;
  require_origin();
  order_.record_use(data, stream);
}

void CachingAllocator::keep_for_graph(void* data, StreamRef stream) {
  if (data == nullptr) return;
  require_origin();
  order_.keep_for_graph(data, stream);
}

void CachingAllocator::retire_stream(StreamRef stream) noexcept {
  if (origin_.is_here()) order_.retire(stream);
}

std::size_t CachingAllocator::trim(std::size_t bytes_to_keep) {
  const std::size_t reserved = reserve_.budget().reserved();
  const std::size_t bytes = reserved > bytes_to_keep ? reserved - bytes_to_keep : 0;
  return require_returned(try_release(bytes, HostWait::yes), bytes);
}

std::size_t CachingAllocator::require_returned(const Returned& returned, std::size_t bytes) const {
  if (returned.bytes < bytes && returned.refusal) refuse_more(":", returned);
  return returned.bytes;
}

void CachingAllocator::refuse_more(const char* state, const Returned& returned) const {
  const auto [call, code] = returned.refusal;
  throw DriverError(
      format_text("{}{} the driver has taken back {}, and refuses more: {} failed: {}; the memory "
                  "stays reserved until trim() returns it",
                  name(), state, format_bytes(returned.bytes), kDriverCallNames[std::size_t(call)],
                  driver_.describe(code)),
      code);
}

std::size_t CachingAllocator::release_unused(std::chrono::nanoseconds age,
                                             DemandHistory::Time now) {
  require_origin();
  MappingNotices::require_outside("release_unused()");
  const std::size_t unused = reserve_.unused_bytes(age, now);
  return unused > 0 ? require_returned(try_release(unused, HostWait::no), unused) : 0;
}

CachingAllocator::Returned CachingAllocator::release_idle_now(std::size_t bytes) {
  {
    const MutexLock lock(heap_.mutex);
    heap_.collect_all();
    order_.release_unheld();
  }
  order_.reclaim();
  bool keeps_free_memory = false;
  {
    const MutexLock lock(heap_.mutex);
    keeps_free_memory = heap_.keeps_memory || heap_.is_asleep;
  }
  if (keeps_free_memory) return release_idle(0, {});  // memory that the driver refused before
  return release_idle(bytes, order_.idle());
}

CachingAllocator::Returned CachingAllocator::release_once_idle(std::size_t bytes) {
  const std::vector<Freed> idle = order_.wait_until_idle();
  const MutexLock slow(heap_.slow_mutex);
  return release_idle(bytes, idle);
}

CachingAllocator::Returned CachingAllocator::release_idle(std::size_t bytes,
                                                          std::span<const Freed> idle) {
  static_cast<void>(reserve_.take_refusal());  // of a request
  const std::size_t released = reserve_.release_idle(bytes, idle);
  return {released, reserve_.take_refusal()};
}

CachingAllocator::Returned CachingAllocator::try_release(std::size_t bytes, HostWait wait) {
  require_origin();
  MappingNotices::require_outside("returning cached memory");
  Returned released;
  std::uint64_t deferred_by = 0;
  {
    const MutexLock slow(heap_.slow_mutex);
    released = release_idle_now(bytes);
    const MutexLock lock(heap_.mutex);
    deferred_by = order_.uses().now();
  }
  if (wait == HostWait::no || released.bytes >= bytes || heap_.keeps_memory || is_asleep()) {
    return released;
  }
  const auto add = [&released](const Returned& more) {  // may return memory that was refused
    const bool decides = more.bytes > 0 || more.refusal;
    released = {released.bytes + more.bytes, decides ? more.refusal : released.refusal};
  };
  add(release_once_idle(bytes - released.bytes));
  if (released.bytes < bytes && order_.wait_for_oldest(deferred_by)) {
    while (order_.wait_for_oldest(deferred_by)) continue;
    add(release_once_idle(bytes - released.bytes));
  }
  // A reclaimed block may belong to a stream other than the one it awaited. After these two passes,
  // no further block can become free.
  for (int count = 0; count < 2 && released.bytes < bytes; ++count) {
    if (order_.recover_quarantined() == 0) break;
    const MutexLock slow(heap_.slow_mutex);
    add(release_idle_now(bytes - released.bytes));
  }
  return released;
}

std::size_t CachingAllocator::try_release_cached(std::size_t bytes) {
  require_origin();
  const std::unique_lock slow(heap_.slow_mutex, std::try_to_lock);
  return slow.owns_lock() ? release_idle_now(bytes).bytes : 0;
}

/// This includes streams without memory here, because a graph that was captured on them may still
/// run.
void CachingAllocator::close() {
  MappingNotices::require_outside("close()");
  if (!is_closed_) {
    order_.wait_for_all();
    heap_.keeps_memory = false;
    is_closed_ = true;
    reserve_.forget_content();
  }
  order_.recover_quarantined();  // also if the pool is asleep and has no reserved memory
}

bool CachingAllocator::is_asleep() const {
  require_origin();
  const MutexLock lock(heap_.mutex);
  return heap_.is_asleep;
}

std::size_t CachingAllocator::sleep(DeviceContext& context, SleepContent content) {
  const auto begun = begin_sleep(context, content);
  if (!begun) return 0;
  const Returned returned = finish_sleep(*begun);
  require_asleep(returned);
  return returned.bytes;
}

void CachingAllocator::require_asleep(const Returned& returned) const {
  if (returned.refusal) refuse_more(" is asleep;", returned);
}

std::optional<Reserve::Sleep> CachingAllocator::begin_sleep(DeviceContext& context,
                                                            SleepContent content) {
  require_origin();
  MappingNotices::require_outside("sleep()");
  return reserve_.begin_sleep(context, content);
}

void CachingAllocator::wake(DeviceContext& context) {
  require_origin();
  MappingNotices::require_outside("wake()");
  if (reserve_.try_to_wake(context)) return;
  std::size_t bytes = 0;
  {
    const MutexLock lock(heap_.mutex);
    bytes = heap_.counters.bytes_asleep.current;
  }
  const MemoryBudget& budget = reserve_.budget();
  if (others_ && budget.has_own_room(bytes) &&
      others_(budget.reclaim_target_bytes(bytes), HostWait::yes) > 0 &&
      reserve_.try_to_wake(context))
    return;
  fail_to_wake(context, bytes);
}

}  // namespace berth
