// SPDX-License-Identifier: Apache-2.0
// What other streams do with blocks: they are recorded, marked by events, and waited for before a
// block is reused. Events are recorded and polled between two times under `mutex_`.
#include <utility>

#include "berth/error.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/gauge.hpp"
#include "memory/memory_errors.hpp"
#include "stream/capture.hpp"
#include "stream/default_streams.hpp"
#include "stream/unasked.hpp"

namespace berth {

void CachingAllocator::record_stream(void* data, StreamRef stream) {
  if (data == nullptr) return;
  require_origin();
  const MutexLock lock(mutex_);
  Block& block = require_live(data, "record a stream on");
  const OwnerId user = streams_.id_of(stream);
  if (user != block.owner) uses_.add(block, {user, {}});
}

void CachingAllocator::record_use(void* data, StreamRef stream) {
  if (data == nullptr) return;
  require_origin();
  require_one_stream(stream);
  RecordedEvent end;
  std::uint64_t began = 0;
  {
    const MutexLock lock(mutex_);
    const Block& block = require_live(data, "record a use of");
    const std::optional<OwnerId> user = streams_.find(stream);
    if (user && (*user == block.owner || uses_.lasts(block, *user))) return;
    began = deferred_.now();
  }
  // What is being captured cannot be marked now: the free does it, or whoever polls later.
  if (!is_capturing(stream)) end.event = record(stream);
  const MutexLock lock(mutex_);
  Block& block = require_live(data, "record a use of");
  if (end.event != nullptr) {
    end.after = began;
    end.before = deferred_.tick();
  }
  const OwnerId user = streams_.id_of(stream);
  if (user != block.owner) uses_.add(block, {user, std::move(end)});
}

SharedEvent CachingAllocator::record(StreamRef stream) {
  auto event = std::make_shared<EventLease>(events_(stream.context()).acquire());
  record_unasked(*event, stream);
  return event;
}

void CachingAllocator::seal(OwnerId stream) noexcept {
  try {
    std::uint64_t began = 0;
    {
      const MutexLock lock(mutex_);
      if (!deferred_.needs_seal(stream)) return;
      began = deferred_.now();
    }
    const StreamTable::Entry used = find(stream).value();
    if (!can_be_observed(used)) return;  // later, when what is captured has become a graph
    const SharedEvent event = used.retired ? used.last_work : record(used.stream);
    const MutexLock lock(mutex_);
    deferred_.seal(stream, began, event);
  } catch (const Error& error) {
    driver_.report(Severity::warning,
                   name_ + ": no event marks a deferred free yet, tried again later", error);
  } catch (const std::exception& error) {  // the host's memory
    driver_.report(Severity::warning, name_ + ": a deferred free waits: " + error.what());
  }
}

void CachingAllocator::pass(OwnerId stream, const RecordedEvent& end) {
  const MutexLock lock(mutex_);
  if (end.event != nullptr) streams_.set_passed(stream, end);
  for (Block* block : deferred_.pass(stream, end.event)) {
    ++counters_.frees_reclaimed;
    lower_gauge(counters_.bytes_active, block->bytes);
    lower_gauge(demand_, block->bytes);
    release(*block);
  }
  count_blocks();
}

std::vector<OwnerId> CachingAllocator::streams_deferred_for() const {
  const MutexLock lock(mutex_);
  return deferred_.streams();
}

void CachingAllocator::reclaim_deferred() {
  RelaxedCapture relaxed(driver_);
  for (const OwnerId stream : streams_deferred_for()) {
    relaxed.begin();
    seal(stream);
    for (;;) {
      RecordedEvent oldest;
      bool over = false;
      {
        const MutexLock lock(mutex_);
        if (!deferred_.has_marks(stream)) break;
        oldest = deferred_.front(stream);
        over = streams_.is_over(stream);
      }
      if (!over && (oldest.event == nullptr || !oldest.event->ref().is_done())) break;
      pass(stream, oldest);
    }
  }
}

bool CachingAllocator::wait_for_oldest_deferred() {
  RelaxedCapture relaxed(driver_);
  for (const OwnerId stream : streams_deferred_for()) {
    relaxed.begin();
    seal(stream);
    RecordedEvent oldest;
    {
      const MutexLock lock(mutex_);
      oldest = deferred_.front(stream);
      if (oldest.event == nullptr && !streams_.is_over(stream)) continue;
      ++counters_.pending_free_waits;
    }
    if (oldest.event != nullptr) oldest.event->ref().sync();
    pass(stream, oldest);
    return true;
  }
  return false;
}

}  // namespace berth
