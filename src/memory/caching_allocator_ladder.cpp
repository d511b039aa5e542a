// SPDX-License-Identifier: Apache-2.0
// The ladder: the steps, from cheap to expensive, for a request that the calling thread's cache
// cannot serve.
//
// One rule applies to all rungs: a rung that has made progress is followed by a search. From `grow`
// on, it is also followed by a new pass from the top, in which growth can use the room that was
// made. So rungs are independent of each other, and a request fails only after a search and a
// complete pass in which no rung made progress and no thread freed memory.
#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/source/mapping_notices.hpp"

namespace berth {
namespace {

/// Passes in a row without progress of the request's own, which are repeated only because other
/// threads free memory and allocate it again, or because the callback has reported success.
constexpr int kFruitlessPassesMax = 8;
/// Passes that have found memory: far more than ever occur. The callback may free little at a time.
constexpr int kPassesMax = 1 << 20;
/// A request of this size or more searches its thread's cache before it takes unowned memory.
constexpr std::size_t kBytesOfOthersMin = 1_MiB;

}  // namespace

const CachingAllocator::Rung CachingAllocator::kLadder[] = {
    {&CachingAllocator::collect, false},
    {&CachingAllocator::apply_soft_limit, false},
    {&CachingAllocator::mark, true},
    {&CachingAllocator::reclaim, true},
    {&CachingAllocator::disown_all_idle, true},
    {&CachingAllocator::stitch, true},
    {&CachingAllocator::wait_before_growth, true},
    {&CachingAllocator::borrow, true},
    {&CachingAllocator::disown_all_idle_late, true},
    {&CachingAllocator::grow, true},
    {&CachingAllocator::disown_idle, true},
    {&CachingAllocator::give_back, true},
    {&CachingAllocator::reclaim_from_pools, false},
    {&CachingAllocator::take_behind_waits, true},
    {&CachingAllocator::relieve_pressure, false, true},
    {&CachingAllocator::wait_for_deferred, false, true},
    {&CachingAllocator::wait_for_streams, false, true},
    {&CachingAllocator::reclaim_from_pools_after_wait, false, true},
    {&CachingAllocator::recover_quarantined, false, true},
    {&CachingAllocator::wait_for_changes, false, true},
};

void* CachingAllocator::descend(Request& request) {
  BERTH_CHECK(request.data == nullptr);
  MappingNotices::require_outside("an allocation that needs more than cached memory");
  refuse_impossible(request);
  if (request.consolidates_first) {
    consolidate(request);
    if (take(request)) return request.data;
  }
  int fruitless = 0;
  for (int passes = 0; passes < kPassesMax && fruitless < kFruitlessPassesMax; ++passes) {
    const Outcome outcome = descend_once(request);
    if (request.data != nullptr) return request.data;
    if (outcome == Outcome::progress) {
      fruitless = 0;
      continue;
    }
    ++fruitless;
    // The driver may have memory a moment after it refused a request.
    const bool retries = request.refused_by_driver && fruitless == 1;
    if (outcome == Outcome::nothing && !retries && changes() == request.changes_seen) break;
    // Other threads have freed memory, or a rung that failed has: growth returns idle memory first.
    if (take(request)) return request.data;
  }
  fail(request);
}

bool CachingAllocator::should_consolidate(const Request& request) {
  if (heap_.streams.count() < 2 || isolates_streams()) return false;
  // The exact value is computed only if the estimate suggests a low point, because that slows down
  // the hits of other threads.
  const std::int64_t unsettled = heap_.ledger_of(request.cache).bytes_allocated.change();
  const auto live = static_cast<std::int64_t>(heap_.counters.bytes_active.current) + unsettled;
  return step_detector_.rises_from_low(static_cast<std::uint64_t>(std::max<std::int64_t>(live, 0)),
                                       [this]() BERTH_UNDER_LOCK {
                                         heap_.apply_ledgers();
                                         return heap_.counters.bytes_active.current;
                                       });
}

/// If several streams share the heap, it is consolidated as far as possible. The request does not
/// depend on that: consolidation does not wait, and its failure is ignored.
void CachingAllocator::consolidate(const Request& request) noexcept {
  const std::unique_lock slow(heap_.slow_mutex, std::try_to_lock);
  if (!slow.owns_lock()) return;
  try {
    {
      const MutexLock lock(heap_.mutex);
      heap_.collect_all();
    }
    if (request.stream) order_.mark_request_stream(*request.stream, request.owner);
    order_.reclaim();
    if (order_.quiescence().are_frequent()) order_.disown_all_idle();
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::warning, name(), ": the heap could not be consolidated", error);
  }
}

CachingAllocator::Outcome CachingAllocator::descend_once(Request& request) {
  std::unique_lock slow(heap_.slow_mutex, std::defer_lock);
  bool can_grow = false;  // whether grow() was reached
  for (const Rung& rung : kLadder) {
    if (rung.waits && !request.may_wait) continue;
    if (rung.holds_slow_lock != slow.owns_lock()) {
      if (rung.holds_slow_lock) {
        if (!slow.try_lock()) {
          slow.lock();  // waits for a thread whose growth may serve this request too
          if (take(request)) return Outcome::progress;
        }
      } else {
        slow.unlock();
      }
    }
    const Outcome outcome = (this->*rung.step)(request);
    if (request.data != nullptr) return outcome;
    can_grow |= rung.step == &CachingAllocator::grow;
    if (outcome == Outcome::nothing) continue;
    request.has_progressed |= outcome == Outcome::progress;
    if (take(request) || can_grow) return outcome;
  }
  return Outcome::nothing;
}

bool CachingAllocator::take(Request& request) {
  const MutexLock lock(heap_.mutex);
  return take_in_lock(request);
}

// The heap does not know the blocks in thread caches. Before the heap breaks a whole granule, the
// caches are returned, because they may contain a smaller hole.
bool CachingAllocator::take_in_lock(Request& request) {
  heap_.require_awake();
  if (heap_.take_transferred(request)) return true;
  BlockHeap& blocks = heap_.blocks;
  BlockHeap::Fit fit = blocks.find_fit(request.bytes, request.owner);
  const bool is_costly = fit.hole == nullptr ||
                         blocks.granules_needed(request.bytes) < fit.granules_broken ||
                         (fit.hole->owner != request.owner && request.bytes >= kBytesOfOthersMin);
  if (is_costly && heap_.collect(request.cache, request.owner)) {
    fit = blocks.find_fit(request.bytes, request.owner);
  }
  if (fit.hole == nullptr || reserve_.exceeds_slack(*fit.hole, request.bytes)) return false;
  heap_.hand_out(blocks.take(fit, request.bytes, request.bytes_requested, request.owner), request);
  ++heap_.counters.allocations_fitted;
  return true;
}

std::uint64_t CachingAllocator::changes() {
  const MutexLock lock(heap_.mutex);
  order_.release_unheld();
  heap_.apply_ledgers();
  return changes_in_lock();
}

std::uint64_t CachingAllocator::changes_in_lock() const {
  return heap_.counters.frees + heap_.counters.frees_reclaimed + heap_.counters.blocks_passed_on +
         reserve_.budget().room_increases();
}

/// The caches of all threads are returned to the heap, which is searched before the threads can
/// take the blocks again.
CachingAllocator::Outcome CachingAllocator::collect(Request& request) {
  const MutexLock lock(heap_.mutex);
  std::size_t blocks = heap_.collect_all();
  blocks += order_.release_unheld();
  request.changes_seen = changes_in_lock();
  request.has_other_streams = heap_.streams.count() > (request.owner == kUnowned ? 0 : 1);
  request.has_deferred_frees = order_.uses().has_deferred();
  if (request.deferred_by == 0) request.deferred_by = order_.uses().now();
  request.has_unowned = request.owner != kUnowned && !heap_.blocks.free_blocks(kUnowned).empty();
  if (blocks == 0) return Outcome::nothing;
  take_in_lock(request);
  return Outcome::progress;
}

CachingAllocator::Outcome CachingAllocator::apply_soft_limit(Request& request) {
  const std::size_t excess = reserve_.budget().whole_beyond_soft_max(request.bytes);
  if (excess > 0 && others_) others_(excess, HostWait::no);
  return Outcome::nothing;  // the request continues: only a hard limit refuses
}

CachingAllocator::Outcome CachingAllocator::mark(Request& request) {
  if (!request.stream || !(request.has_other_streams || request.has_deferred_frees))
    return Outcome::nothing;
  try {
    order_.mark_request_stream(*request.stream, request.owner);
  } catch (const Exhausted& error) {  // a mark helps only later requests
    driver_.report(Severity::warning, name(),
                   ": an event could not be recorded for a stream, will retry", error);
  }
  return Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::reclaim(Request& request) {
  if (!request.has_deferred_frees) return Outcome::nothing;
  return order_.reclaim() > 0 ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::disown_all_idle(Request& request) {
  if (!request.has_other_streams || isolates_streams()) return Outcome::nothing;
  if (!order_.others_can_serve(request)) return Outcome::nothing;
  request.skipped_all_idle = !order_.quiescence().is_expected();
  if (request.skipped_all_idle) return Outcome::nothing;
  return order_.disown_all_idle() > 0 ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::disown_all_idle_late(Request& request) {
  if (!std::exchange(request.skipped_all_idle, false)) return Outcome::nothing;
  return order_.disown_all_idle() > 0 ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::stitch(Request& request) {
  if (!request.has_other_streams && !request.has_unowned) return Outcome::nothing;
  return reserve_.stitch(request) == Reserve::Growth::none ? Outcome::nothing : Outcome::progress;
}

CachingAllocator::Outcome CachingAllocator::borrow(Request& request) {
  if (!request.has_other_streams) return Outcome::nothing;
  const std::size_t blocks = isolates_streams() ? order_.disown_drained() : order_.borrow(request);
  return blocks > 0 ? Outcome::progress : Outcome::nothing;
}

/// Reserved memory suffices for the peak of live memory, if streams wait for one another.
CachingAllocator::Outcome CachingAllocator::wait_before_growth(Request& request) {
  if (cross_stream_reuse_ != CrossStreamReuse::before_growth || !request.stream) {
    return Outcome::nothing;
  }
  if (!request.has_other_streams && !request.has_deferred_frees) return Outcome::nothing;
  if (!reserve_.grows_beyond_demand(request) || is_captured(request)) return Outcome::nothing;
  std::size_t blocks = 0;
  try {
    blocks += order_.take_deferred(request);
    blocks += order_.take_some_behind_waits(request);
    blocks += order_.take_deferred_of_others(request);
  } catch (const Exhausted&) {  // NOLINT(bugprone-empty-catch): no event is left to wait for
  }
  return blocks > 0 ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::grow(Request& request) {
  return reserve_.grow(request) == Reserve::Growth::none ? Outcome::nothing : Outcome::progress;
}

CachingAllocator::Outcome CachingAllocator::use_idle_memory(std::vector<Freed> idle,
                                                            Request& request) {
  if (isolates_streams() && !exceeds_limit(request)) {
    if (reserve_.give_back_for(request, idle) > 0) return Outcome::progress;
    // No memory is returned or becomes unowned.
    if (heap_.keeps_memory)
      return order_.borrow(request) > 0 ? Outcome::progress : Outcome::nothing;
  }
  // This includes the request's own memory, which it has searched: as unowned memory, it can be
  // returned.
  return order_.disown(idle) > 0 ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::disown_idle(Request& request) {
  return use_idle_memory(order_.idle(), request);
}

/// First the missing amount, so that the rest stays cached; if that does not help, all.
CachingAllocator::Outcome CachingAllocator::give_back(Request& request) {
  if (exceeds_limit(request)) return Outcome::nothing;
  std::size_t missing = request.beyond_limit_bytes;
  {
    const MutexLock lock(heap_.mutex);
    if (heap_.blocks.has_granules()) missing = 0;  // new granules are stitched to existing ones
  }
  const std::size_t amounts[] = {missing, request.bytes, std::numeric_limits<std::size_t>::max()};
  while (request.give_backs < std::size(amounts)) {
    const std::size_t bytes = amounts[request.give_backs++];
    if (bytes > 0 && reserve_.give_back(bytes) > 0) return Outcome::progress;
  }
  return reserve_.give_back(std::numeric_limits<std::size_t>::max()) > 0 ? Outcome::progress
                                                                         : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::reclaim_from(Request& request, HostWait wait) {
  MemoryBudget& budget = reserve_.budget();
  const bool is_own_limit = !budget.has_own_room(1);
  if (!others_ || is_own_limit) return Outcome::nothing;
  if (wait != HostWait::no && is_captured(heap_, request)) return Outcome::nothing;
  return others_(budget.reclaim_target_bytes(request.bytes), wait) > 0 ? Outcome::progress
                                                                       : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::reclaim_from_pools(Request& request) {
  return reclaim_from(request, HostWait::no);
}

CachingAllocator::Outcome CachingAllocator::reclaim_from_pools_after_wait(Request& request) {
  return reclaim_from(request, HostWait::yes);
}

CachingAllocator::Outcome CachingAllocator::take_behind_waits(Request& request) {
  if (cross_stream_reuse_ < CrossStreamReuse::behind_waits) return Outcome::nothing;
  if (!request.stream || is_captured(heap_, request)) return Outcome::nothing;
  return order_.take_behind_waits(request) > 0 ? Outcome::progress : Outcome::nothing;
}

/// Only if there was progress since the last call: otherwise a callback that wrongly reports
/// success would be called forever.
CachingAllocator::Outcome CachingAllocator::relieve_pressure(Request& request) {
  if (!on_pressure_ || !request.has_progressed) return Outcome::nothing;
  const std::size_t beyond = request.beyond_limit_bytes;
  const std::uint64_t changes_before = changes();
  request.has_progressed = false;
  if (!on_pressure_(beyond > 0 ? std::min(beyond, request.bytes) : request.bytes)) {
    return Outcome::nothing;
  }
  request.give_backs = 0;
  request.deferred_by = 0;
  // The callback may have freed memory of another pool, which the other rungs detect.
  return changes() != changes_before ? Outcome::progress : Outcome::perhaps;
}

CachingAllocator::Outcome CachingAllocator::wait_for_deferred(Request& request) {
  if (is_captured(heap_, request)) return Outcome::nothing;
  return order_.wait_for_oldest(request.deferred_by) ? Outcome::progress : Outcome::nothing;
}

CachingAllocator::Outcome CachingAllocator::wait_for_streams(Request& request) {
  if (request.waits_for_all_left == 0 || is_captured(heap_, request)) return Outcome::nothing;
  --request.waits_for_all_left;
  const std::vector<Freed> idle = order_.wait_until_idle();
  const MutexLock slow(heap_.slow_mutex);
  return use_idle_memory(idle, request);
}

CachingAllocator::Outcome CachingAllocator::recover_quarantined(Request& request) {
  if (request.waits_for_all_left == 0 || is_captured(heap_, request)) return Outcome::nothing;
  --request.waits_for_all_left;
  return order_.recover_quarantined() > 0 ? Outcome::progress : Outcome::nothing;
}

/// Memory that other threads are obtaining or returning, for this pool or another one.
CachingAllocator::Outcome CachingAllocator::wait_for_changes(Request&) {
  return reserve_.budget().wait_for_changes() ? Outcome::perhaps : Outcome::nothing;
}

}  // namespace berth
