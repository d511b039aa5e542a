// SPDX-License-Identifier: Apache-2.0
// Returning memory to the driver, and counting what the driver refuses.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "memory/gauge.hpp"
#include "memory/reserve.hpp"

namespace berth {

std::size_t Reserve::unused_bytes(std::chrono::nanoseconds age, DemandHistory::Time now) {
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  history_.add(now, heap_.demand.peak);
  heap_.demand.peak = heap_.demand.current;
  const auto needed = history_.most_since(now - age);
  const std::size_t reserved = heap_.counters.bytes_reserved.current;
  if (!needed || *needed >= reserved) return 0;
  return heap_.blocks.whole_granules_of(reserved - *needed);
}

std::size_t Reserve::give_back_for(const Request& request, std::vector<Freed> idle) {
  std::size_t lacking = request.bytes;
  {
    const MutexLock lock(heap_.mutex);
    if (heap_.blocks.has_granules()) {  // new granules are stitched to its stream's
      const std::size_t own =
          heap_.blocks.whole_granules(request.owner) * heap_.blocks.granule_bytes();
      lacking -= std::min(lacking, own);
      std::erase_if(idle, [&](const Freed& freed) { return freed.owner == request.owner; });
    }
  }
  return give_back_whole(lacking, idle);
}

std::size_t Reserve::give_back_whole(std::size_t bytes, std::span<const Freed> idle) {
  const std::size_t given_back = give_back(bytes);
  return given_back < bytes ? given_back + give_back(bytes - given_back, idle) : given_back;
}

std::size_t Reserve::release_idle(std::size_t bytes, std::span<const Freed> idle) {
  std::size_t given_back = 0;
  if (options_.isolates_streams) {
    given_back = give_back_whole(bytes, idle);
    if (given_back >= bytes) return given_back;
  }
  order_.disown(idle);
  return given_back + give_back(bytes - given_back);
}

std::size_t Reserve::give_back(std::size_t bytes, std::span<const Freed> idle) {
  const MemoryBudget::Change change(options_.budget);
  std::size_t given_back = retry_refused();
  {
    const MutexLock lock(heap_.mutex);
    if (heap_.keeps_memory || heap_.is_asleep) return given_back;
  }
  for (std::size_t more = 1; more > 0 && given_back < bytes; given_back += more) {
    const DriverRefusal before = std::exchange(refusal_, {});
    more = give_back_some(bytes - given_back, idle);  // tries again to return refused memory
    if (more == 0 && !refusal_) refusal_ = before;
  }
  return given_back;
}

std::size_t Reserve::give_back_some(std::size_t bytes, std::span<const Freed> idle) {
  std::vector<SegmentSource::Range> ranges;
  std::size_t refused_before = 0;
  {
    const MutexLock lock(heap_.mutex);
    refused_before = source_->refused_bytes();
    std::size_t disowned = 0;
    for (const Freed& freed : idle) {  // held at once, so that no request takes it
      if (disowned >= bytes) break;
      disowned +=
          heap_.blocks.transfer_whole(freed.owner, kUnowned, freed.serial, bytes - disowned);
    }
    ranges = source_->plan_return(heap_.blocks, bytes);
  }
  using State = SegmentSource::Range::State;
  std::size_t removed_from_heap = 0;
  for (std::size_t index = 0; index < ranges.size(); ++index) {  // refused parts are added
    BERTH_CHECK(ranges[index].held->state() == Block::State::held);
    const bool is_new = ranges[index].state == State::held;
    if (const DriverRefusal refusal =
            is_new ? source_->give_back(ranges[index]) : DriverRefusal{}) {
      refusal_ = refusal;
      const MutexLock lock(heap_.mutex);
      source_->separate_refused(heap_.blocks, ranges, index);
    }
    SegmentSource::Range& range = ranges[index];
    const std::size_t range_bytes = range.held->bytes;
    const bool is_kept = range.state == State::refused && source_->keep(range);
    const MutexLock lock(heap_.mutex);
    if (is_kept) {
      source_->cancel_return(heap_.blocks, std::move(range));
      heap_.count_blocks();
      continue;
    }
    source_->finish_return(heap_.blocks, std::move(range));
    BERTH_CHECK(heap_.counters.bytes_reserved.current >= range_bytes);
    removed_from_heap += range_bytes;
    lower_gauge(heap_.counters.bytes_reserved, range_bytes);
    ++heap_.counters.segments_released;
    heap_.count_blocks();
  }
  const MutexLock lock(heap_.mutex);
  recount();  // what is refused and not kept by the heap
  options_.budget.release(removed_from_heap);
  const std::size_t refused = source_->refused_bytes() - refused_before;
  BERTH_CHECK(refused <= removed_from_heap);
  return removed_from_heap - refused;
}

std::size_t Reserve::retry_refused() {
  {
    const MutexLock lock(heap_.mutex);
    if (is_copying_) return 0;  // the thread that copies will use it, or count it
  }
  if (const DriverRefusal refusal = source_->retry_refused()) refusal_ = refusal;
  const MutexLock lock(heap_.mutex);
  const std::uint64_t before = heap_.counters.bytes_reserved.current;
  recount();
  return before - std::min(before, heap_.counters.bytes_reserved.current);
}

void Reserve::recount() {
  Gauge& reserved = heap_.counters.bytes_reserved;
  Gauge& asleep = heap_.counters.bytes_asleep;
  Gauge& refused = heap_.counters.bytes_unreturnable;
  const std::size_t refused_now = source_->refused_bytes();
  const std::size_t asleep_now = source_->asleep_bytes();
  const std::size_t more = refused_now + asleep.current;
  const std::size_t less = refused.current + asleep_now;
  if (more > less) {
    options_.budget.add(more - less);
    raise_gauge(reserved, more - less);
  } else if (less > more) {
    BERTH_CHECK(reserved.current >= less - more);
    lower_gauge(reserved, less - more);
    options_.budget.release(less - more);
  }
  set_gauge(refused, refused_now);
  set_gauge(asleep, asleep_now);
}

void Reserve::settle(std::size_t bytes) {
  {
    const MutexLock lock(heap_.mutex);
    recount();
  }
  options_.budget.give_back(bytes);
}

}  // namespace berth
