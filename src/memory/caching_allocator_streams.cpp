// SPDX-License-Identifier: Apache-2.0
// How memory passes from stream to stream: from those without pending work, and from those that go
// away.
#include <algorithm>
#include <iterator>

#include "berth/error.hpp"

#include "memory/caching_allocator.hpp"
#include "stream/capture.hpp"
#include "stream/unasked.hpp"

namespace berth {

bool CachingAllocator::can_be_observed(const StreamTable::Entry& stream) {
  return stream.retired ? !stream.lost : !is_capturing(stream.stream);
}

bool CachingAllocator::is_idle(OwnerId owner) const {
  const StreamTable::Entry stream = find(owner).value();
  if (!can_be_observed(stream)) return false;
  if (!stream.retired) return is_done_unasked(stream.stream);
  return stream.last_work == nullptr || stream.last_work->ref().is_done();
}

template <class PassOn>
bool CachingAllocator::pass_on_if_idle(OwnerId owner, const PassOn& pass_on) {
  std::uint64_t serial = 0;
  {
    const MutexLock lock(mutex_);
    serial = heap_.serial();  // before the question, so that the answer covers these frees
  }
  if (!is_idle(owner)) return false;
  const MutexLock lock(mutex_);
  const bool is_gone = streams_.entry(owner).retired;  // then all of it is anyone's for good
  if (is_gone) streams_.set_over(owner);
  const std::size_t blocks = is_gone ? heap_.transfer(owner, kUnowned, serial) : pass_on(serial);
  counters_.blocks_passed_on += blocks;
  count_blocks();
  return blocks > 0;
}

void* CachingAllocator::take_from_idle_streams(Request& request) {
  const MutexLock slow(slow_mutex_);
  return pass_on_idle(request);
}

void* CachingAllocator::take_from_ended_streams(Request& request) {
  const MutexLock slow(slow_mutex_);
  Freed left = unsettled();
  {
    const MutexLock lock(mutex_);
    std::erase_if(left.owners, [&](OwnerId owner) BERTH_UNDER_LOCK { return !is_retired(owner); });
  }
  const Freed idle = idle_of(left);
  if (idle.owners.empty()) return nullptr;
  disown(idle);
  return take_from_heap(request);
}

// As little as serves the request, or else as many granules as it lacks: streams that take turns in
// needing memory would hand all of it to and fro otherwise, with a question to the driver each time.
void* CachingAllocator::pass_on_idle(const Request& request) {
  std::vector<OwnerId> owners;
  {
    const MutexLock lock(mutex_);
    owners = heap_.owners_with_fit(request.bytes);
  }
  RelaxedCapture relaxed(driver_);
  for (const OwnerId owner : owners) {
    relaxed.begin();
    if (!pass_on_if_idle(owner, [&](std::uint64_t serial) BERTH_UNDER_LOCK {
          return heap_.transfer_fit(owner, request.owner, serial, request.bytes) ? 1 : 0;
        }))
      continue;
    if (void* data = take_from_heap(request)) return data;
  }
  pass_on_missing_granules(request);
  return nullptr;  // what there is now, the next rung joins
}

void CachingAllocator::pass_on_missing_granules(const Request& request) {
  std::vector<OwnerId> owners;
  std::size_t missing = 0;
  {
    const MutexLock lock(mutex_);
    const std::size_t needed = heap_.granules_needed(request.bytes) + 1;
    const std::size_t own = heap_.whole_granules(request.owner) +
                            (request.owner == kUnowned ? 0 : heap_.whole_granules(kUnowned));
    missing = needed > own ? needed - own : 0;
    owners = heap_.owners_with_free_blocks();
    std::erase_if(owners, [&](OwnerId owner) BERTH_UNDER_LOCK {
      return owner == request.owner || heap_.whole_granules(owner) == 0;
    });
  }
  RelaxedCapture relaxed(driver_);
  for (const OwnerId owner : owners) {
    if (missing == 0) return;
    relaxed.begin();
    pass_on_if_idle(owner, [&](std::uint64_t serial) BERTH_UNDER_LOCK {
      const std::size_t moved = heap_.transfer_granules(owner, request.owner, serial, missing);
      missing -= moved;
      return moved > 0 ? 1 : 0;
    });
  }
}

CachingAllocator::Freed CachingAllocator::unsettled() const {
  const MutexLock lock(mutex_);
  Freed found{.owners = {}, .serial = heap_.serial()};
  std::ranges::set_union(heap_.owners_with_free_blocks(), streams_.ending(),
                         std::back_inserter(found.owners));
  return found;
}

CachingAllocator::Freed CachingAllocator::idle_of(const Freed& asked) const {
  Freed idle{.owners = {}, .serial = asked.serial};
  RelaxedCapture relaxed(driver_);
  for (const OwnerId owner : asked.owners) {
    relaxed.begin();
    if (is_idle(owner)) idle.owners.push_back(owner);
  }
  return idle;
}

CachingAllocator::Freed CachingAllocator::idle_now() const {
  if (keeps_memory_) return {};  // a graph may be launched again
  return idle_of(unsettled());
}

CachingAllocator::Freed CachingAllocator::idle_after_wait() {
  Freed freed = unsettled();
  std::erase_if(freed.owners, [this](OwnerId owner) BERTH_UNDER_LOCK { return !wait_for(owner); });
  return freed;
}

void CachingAllocator::disown(const Freed& idle) {
  const MutexLock lock(mutex_);
  for (const OwnerId owner : idle.owners) {
    counters_.blocks_passed_on += heap_.transfer(owner, kUnowned, idle.serial);
    if (is_retired(owner)) streams_.set_over(owner);
  }
  count_blocks();
}

/// Those that have no memory here now included: a graph that was captured on them may still run.
void CachingAllocator::close() {
  if (is_closed_) return;
  std::vector<OwnerId> all;
  {
    const MutexLock lock(mutex_);
    all = streams_.all();
  }
  RelaxedCapture relaxed(driver_);
  relaxed.begin();
  for (const OwnerId owner : all) {
    SharedEvent end;
    {
      const MutexLock slow(slow_mutex_);  // a stream that goes away waits for it, and for no more
      end = end_of_work(owner);
    }
    if (end != nullptr) end->ref().sync();
  }
  keeps_memory_ = false;
  is_closed_ = true;
  const MutexLock slow(slow_mutex_);
  content_.clear();
}

bool CachingAllocator::wait_for(OwnerId owner) {
  const std::optional<StreamTable::Entry> stream = find(owner);
  if (!stream || !can_be_observed(*stream)) return false;
  RelaxedCapture relaxed(driver_);
  relaxed.begin();
  if (!stream->retired) sync_unasked(stream->stream);
  if (stream->retired && stream->last_work != nullptr) stream->last_work->ref().sync();
  return true;
}

SharedEvent CachingAllocator::end_of_work(OwnerId owner) {
  const std::optional<StreamTable::Entry> stream = find(owner);
  if (!stream || !can_be_observed(*stream)) return nullptr;
  return stream->retired ? stream->last_work : record_or_wait(stream->stream);
}

SharedEvent CachingAllocator::record_or_wait(StreamRef stream) {
  try {
    return record(stream);
  } catch (const Error& error) {
    driver_.report(Severity::warning, name_ + ": waiting for a stream", error);
    sync_unasked(stream);
    return nullptr;
  }
}

void CachingAllocator::retire_stream(StreamRef stream) noexcept {
  if (!origin_.is_here()) return;
  try {
    {
      const MutexLock lock(mutex_);
      if (!streams_.find(stream)) return;
    }
    RelaxedCapture relaxed(driver_);
    relaxed.begin();
    const bool is_lost = is_capturing(stream);
    SharedEvent last_work = is_lost ? nullptr : record_or_wait(stream);
    const MutexLock slow(slow_mutex_);
    const MutexLock lock(mutex_);
    const std::optional<OwnerId> id = streams_.find(stream);
    if (!id) return;
    const ThreadCaches::Halt halt(caches_);
    settle_all(halt);
    halt.for_each([&](ThreadCache& cache) { cache.drop(*id, back_to_heap()); });
    hand_over_.fronts().drop(*id, back_to_heap());
    deferred_.seal(*id, deferred_.now(), last_work);
    if (is_lost) {
      streams_.lose(*id);
    } else {
      streams_.retire(*id, std::move(last_work));
    }
    if (streams_.is_over(*id)) heap_.transfer(*id, kUnowned, heap_.serial());
    streams_.forget_all_but(owners_in_use());
    count_blocks();
    if (!is_lost) return;
    driver_.report(Severity::warning,
                   name_ +
                       ": a stream goes away in the middle of a capture, so nobody can tell when "
                       "its work is done: what is cached for it is not used again");
  } catch (const Error& error) {
    driver_.report(Severity::error, name_ + ": a stream could not be retired", error);
  }
}

void CachingAllocator::stream_retiring(DeviceContext& context, CUstream stream) noexcept {
  retire_stream(StreamRef(context, stream));
}

}  // namespace berth
