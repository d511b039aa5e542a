// SPDX-License-Identifier: Apache-2.0
#include "memory/reserve.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_errors.hpp"
#include "memory/source/mapping_notices.hpp"
#include "stream/capture.hpp"

namespace berth {

bool is_captured(Request& request) {
  if (!request.is_captured) {
    request.is_captured = request.stream && is_capturing(*request.stream);
  }
  return *request.is_captured;
}

bool is_captured(const SharedHeap& heap, Request& request) {
  if (!is_captured(request) || heap.keeps_memory) return *request.is_captured;
  throw InvalidArgument(heap.name + describe_capture_without_pool());
}

bool Reserve::exceeds_slack(const Block& hole, std::size_t bytes) const {
  if (!options_.slack_max || !hole.is_whole_segment()) return false;
  if (hole.bytes <= source_->shared_bytes()) return false;
  const std::size_t rest = hole.bytes - bytes;
  // Half of the allowance is for segments in use, the other half for unused segments.
  return static_cast<double>(rest) > static_cast<double>(bytes) * *options_.slack_max / 2;
}

Reserve::Growth Reserve::stitch(Request& request) {
  {
    const MutexLock lock(heap_.mutex);
    if (heap_.blocks.extend_hole(request.owner, request.bytes)) return Growth::made;
    if (!heap_.blocks.has_granules()) return Growth::none;
  }
  if (source_->needs_idle_memory()) set_idle_memory();
  std::optional<Plan> plan = this->plan(request, SegmentSource::Stitching::only);
  if (!plan || !obtain(request, *plan)) return Growth::none;
  return finish(request, *plan) ? Growth::serving : Growth::made;
}

Reserve::Growth Reserve::grow(Request& request) {
  const MemoryBudget::Change change(options_.budget);
  if (source_->needs_idle_memory()) set_idle_memory();
  std::optional<Plan> plan = this->plan(request, SegmentSource::Stitching::yes);
  const bool obtains = plan && plan->bytes > 0;
  if (const std::size_t excess =
          obtains ? std::max(options_.budget.excess(), excess_slack(request, plan->bytes)) : 0;
      excess > 0) {
    // Not while a plan exists, because this returns free memory on which the plan relies.
    cancel(*plan);
    release_idle(excess, order_.idle());
    plan = this->plan(request, SegmentSource::Stitching::yes);
  }
  if (plan && !obtain(request, *plan)) {
    // The driver may lack room for mappings, or for a segment that requests share. Memory in one
    // piece, or the least that serves the request, may still be available.
    const bool is_stitched = !plan->parts.empty();
    const std::size_t least = source_->least_bytes(*plan, request.bytes);
    if (!is_stitched && least >= plan->bytes) return Growth::none;
    plan = this->plan(request, SegmentSource::Stitching::no,
                      is_stitched ? MemoryBudget::kNoLimit : least);
    if (plan && !obtain(request, *plan)) return Growth::none;
  }
  if (!plan) return Growth::none;
  return finish(request, *plan) ? Growth::serving : Growth::made;
}

bool Reserve::grows_beyond_demand(const Request& request) {
  constexpr double kReservedOfLive = 1.03;
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  const std::size_t granule = std::max<std::size_t>(heap_.blocks.granule_bytes(), 1);
  const std::size_t own = granule * heap_.blocks.whole_granules_for(request.owner);
  const std::size_t wanted = align_up(request.bytes, granule);
  const Gauge& live = heap_.counters.bytes_allocated;
  const std::uint64_t most =
      std::max({live.peak, heap_.bytes_allocated_most, live.current + request.bytes});
  const std::uint64_t grown =
      heap_.counters.bytes_reserved.current + wanted - std::min(wanted, own);
  return static_cast<double>(grown) > static_cast<double>(most) * kReservedOfLive;
}

std::size_t Reserve::excess_slack(const Request& request, std::size_t bytes) {
  if (!options_.slack_max) return 0;
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  const Gauge& active = heap_.counters.bytes_active;
  const auto most = std::max<std::uint64_t>(active.peak, active.current + request.bytes);
  const auto allowed =
      most + static_cast<std::size_t>(static_cast<double>(most) * *options_.slack_max / 2);
  const std::size_t reserved = heap_.counters.bytes_reserved.current + bytes;
  return reserved > allowed ? reserved - allowed : 0;
}

std::optional<Reserve::Plan> Reserve::plan(Request& request, SegmentSource::Stitching stitching,
                                           std::size_t bytes_max) {
  request.beyond_limit_bytes = 0;
  const MutexLock lock(heap_.mutex);
  heap_.require_awake();
  heap_.blocks.reserve_owner(request.owner);  // for a later return, which must not fail
  // Unowned memory and the stream's own may be adjacent, in one granule.
  BlockHeap& blocks = heap_.blocks;
  if (blocks.has_granules() && request.owner != kUnowned) {
    if (blocks.whole_granules_for(request.owner) <= blocks.granules_needed(request.bytes))
      blocks.complete_granules(request.owner);
  }
  auto plan = source_->plan_growth(heap_.blocks, request.bytes, request.owner, stitching);
  if (!plan) return std::nullopt;
  for (const std::size_t bytes : {plan->bytes, source_->least_bytes(*plan, request.bytes)}) {
    if (bytes > bytes_max || !options_.budget.try_reserve(bytes)) continue;
    plan->bytes = bytes;
    return plan;
  }
  source_->cancel_growth(heap_.blocks, *plan);
  ++heap_.counters.limit_rejections;
  request.beyond_limit_bytes = options_.budget.beyond_max(plan->bytes);
  return std::nullopt;
}

void Reserve::cancel(const Plan& plan) {
  {
    const MutexLock lock(heap_.mutex);
    source_->cancel_growth(heap_.blocks, plan);
    heap_.count_blocks();
  }
  settle(plan.bytes);
}

bool Reserve::obtain(Request& request, Plan& plan) {
  try {
    if (plan.bytes > 0) is_captured(heap_, request);
    if (request.stream && !leaves_headroom(request.stream->context(), plan.bytes)) {
      const bool is_least = plan.bytes <= source_->least_bytes(plan, request.bytes);
      cancel(plan);
      const MutexLock lock(heap_.mutex);
      if (is_least) ++heap_.counters.limit_rejections;
      return false;
    }
    if (source_->obtain(plan)) return true;
  } catch (const DriverError& error) {
    cancel(plan);
    throw DriverError(heap_.name + " cannot grow: " + error.what(), error.driver_code());
  } catch (...) {
    cancel(plan);
    throw;
  }
  cancel(plan);
  request.refused_by_driver = true;
  return false;
}

/// Without a lock, because this calls the driver.
void Reserve::give_back_growth(const Plan& plan) noexcept {
  source_->give_back_growth(plan);
  settle(plan.bytes);
}

Block* Reserve::enter(const Plan& plan, std::size_t bytes_requested, OwnerId owner) {
  Block* const block = source_->finish_growth(heap_.blocks, plan, bytes_requested, owner);
  heap_.counters.page_remaps += plan.granules_remapped;
  if (plan.bytes > 0) {
    raise_gauge(heap_.counters.bytes_reserved, plan.bytes);
    ++heap_.counters.segments_mapped;
    // Memory is counted before it is obtained, and until it is returned.
    BERTH_CHECK(options_.budget.reserved() >= heap_.counters.bytes_reserved.current);
  }
  heap_.count_blocks();
  recount();  // the source may have used what it kept
  return block;
}

bool Reserve::finish(Request& request, const Plan& plan) {
  bool is_in_heap = false;
  try {
    const MutexLock lock(heap_.mutex);
    Block* const block = enter(plan, request.bytes_requested, request.owner);
    is_in_heap = true;
    return serve(request, plan, block);
  } catch (...) {
    if (!is_in_heap) give_back_growth(plan);
    throw;
  }
}

bool Reserve::serve(Request& request, const Plan& plan, Block* block) {
  std::uint64_t& path = plan.bytes > 0     ? heap_.counters.allocations_grown
                        : block == nullptr ? heap_.counters.allocations_fitted
                                           : heap_.counters.allocations_stitched;
  // If another thread's request took the new memory, there is none for this request.
  if (block == nullptr)
    block = heap_.blocks.take(request.bytes, request.bytes_requested, request.owner);
  if (block == nullptr) {
    // The host had no memory to stitch the parts, and further attempts might also fail.
    if (!plan.parts.empty()) throw std::bad_alloc();
    return false;
  }
  ++path;
  heap_.hand_out(*block, request);
  return true;
}

bool Reserve::leaves_headroom(DeviceContext& context, std::size_t bytes) const {
  if (options_.headroom_bytes == 0 || bytes == 0) return true;
  const ContextScope scope(context);
  std::size_t free = 0;
  std::size_t total = 0;
  driver_.mem_get_info(&free, &total);
  return free >= bytes && free - bytes >= options_.headroom_bytes;
}

void Reserve::set_idle_memory() {
  const std::vector<Freed> idle = order_.idle_within_limit();
  const MutexLock lock(heap_.mutex);
  source_->set_idle_memory(heap_.blocks, idle);
}

Reserve::GrowAheadResult Reserve::grow_ahead(std::size_t bytes) {
  const MemoryBudget::Change change(options_.budget);
  Plan plan{.bytes = bytes};
  if (!options_.budget.try_reserve(bytes)) return GrowAheadResult::at_limit;
  try {
    if (!source_->obtain(plan)) {
      settle(bytes);
      return GrowAheadResult::no_memory;
    }
  } catch (...) {
    settle(bytes);
    throw;
  }
  try {
    const MutexLock lock(heap_.mutex);
    enter(plan, 0, kUnowned);
  } catch (...) {
    give_back_growth(plan);
    throw;
  }
  return GrowAheadResult::grown;
}

void Reserve::grant_access(DeviceContext& user) {
  MappingNotices::require_outside("enable_peer_access()");
  const MutexLock slow(heap_.slow_mutex);
  source_->grant_access(user);
}

}  // namespace berth
