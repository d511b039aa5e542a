// SPDX-License-Identifier: Apache-2.0
// The end of streams: retired streams, and streams that were destroyed without notice.
#include <algorithm>
#include <utility>

#include "berth/error.hpp"

#include "memory/order/stream_order.hpp"
#include "memory/source/mapping_notices.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"

namespace berth {

SharedEvent StreamOrder::record_or_wait(StreamRef stream) {
  try {
    return record(stream);
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::warning, heap_.name, ": waiting for a stream", error);
  }
  sync_unchecked(stream);
  return nullptr;
}

void StreamOrder::retire(StreamRef stream) noexcept {
  try {
    retire_here(stream);
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::error, heap_.name, ": a stream could not be retired", error);
  }
}

void StreamOrder::retire_here(StreamRef stream) {
  std::optional<OwnerId> id;
  {
    const MutexLock lock(heap_.mutex);
    id = heap_.streams.find(stream);
    if (!id) return;
  }
  // This thread may hold the slow lock.
  if (MappingNotices::is_inside()) {
    quarantine(*id, InvalidArgument("it ends in on_map or on_unmap; accepted: elsewhere"));
    return wait_for_handle_uses(*id);
  }
  bool is_unordered = false;
  SharedEvent last_work;
  try {
    const RelaxedCapture relaxed(driver_);
    is_unordered = is_capturing(stream);
    if (!is_unordered) last_work = record_or_wait(stream);
  } catch (const Error& error) {  // the handle is already invalid
    return quarantine(*id, error);
  }
  {
    const MutexLock slow(heap_.slow_mutex);  // after this, no query names the stream
    const MutexLock lock(heap_.mutex);
    id = heap_.streams.find(stream);
    if (!id) return;
    heap_.drop_caches_of(*id);
    uses_.seal(*id, uses_.now(), last_work);
    if (is_unordered) {
      heap_.streams.retire_unordered(*id);
    } else {
      heap_.streams.retire(*id, std::move(last_work));
    }
    if (heap_.streams.is_drained(*id)) heap_.blocks.transfer(*id, kUnowned, heap_.blocks.serial());
    forget_streams();
    heap_.count_blocks();
  }
  wait_for_handle_uses(*id);  // the caller destroys it after this
  if (!is_unordered) return;
  driver_.report(Severity::warning, [&] {
    return heap_.name +
           ": a stream is destroyed during a capture, so the completion of its work is "
           "unknown: its cached memory is not reused";
  });
}

/// Under no other lock: such a call may wait for room in the stream's queue, and so for the GPU.
void StreamOrder::wait_for_handle_uses(OwnerId retired) {
  const MutexLock lock(heap_.mutex);
  handle_use_ended_.wait(heap_.mutex,
                         [&]() BERTH_UNDER_LOCK { return !heap_.streams.is_handle_used(retired); });
}

/// This visits all blocks, so it runs only when there are twice as many streams as the last run
/// kept. If the host has no memory for it, it runs when the next stream ends.
void StreamOrder::forget_streams() noexcept {
  constexpr std::size_t kStreamsMin = 16;
  if (heap_.streams.count() < std::max(2 * streams_kept_, kStreamsMin)) return;
  try {
    std::set<OwnerId> named;
    heap_.blocks.for_each([&](const Block& block) { named.insert(block.owner); });
    uses_.for_each_stream([&](OwnerId stream) { named.insert(stream); });
    heap_.streams.forget_drained_except(named);
    streams_kept_ = heap_.streams.count();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): nothing has changed
  }
}

void StreamOrder::quarantine(OwnerId owner, const Error& error) {
  {
    const MutexLock lock(heap_.mutex);
    if (!heap_.streams.contains(owner) || heap_.streams.entry(owner).retired) return;
    heap_.drop_caches_of(owner);
    heap_.streams.mark_destroyed(owner);
    heap_.count_blocks();
  }
  driver_.report(Severity::warning, heap_.name,
                 ": a stream that still owns memory was destroyed without retire_stream(); its "
                 "memory is reused once the device is idle",
                 error);
}

bool StreamOrder::synchronize(DeviceContext& context) const {
  if (may_be_capturing(context)) return false;
  const ContextScope scope(context);
  return try_wait_for(context) == CUDA_SUCCESS;
}

std::size_t StreamOrder::recover_quarantined() {
  struct Awaited {
    Freed freed;
    DeviceContext* context;
  };
  std::vector<Awaited> awaited;
  std::uint64_t clock = 0;
  {
    const MutexLock lock(heap_.mutex);
    for (const OwnerId owner : heap_.streams.all()) {
      const StreamTable::Entry& entry = heap_.streams.entry(owner);
      if (entry.is_drain_observable()) continue;
      const bool has_more = !heap_.blocks.free_blocks(owner).empty();
      if (!has_more && !uses_.has_marks(owner)) continue;
      awaited.push_back({{owner, heap_.blocks.serial(), entry.destroyed}, &entry.stream.context()});
    }
    clock = uses_.now();
  }
  if (awaited.empty() || heap_.keeps_memory) return 0;
  const RelaxedCapture relaxed(driver_);
  std::vector<SharedEvent> completed;  // an event that was never recorded has passed
  completed.reserve(awaited.size());
  for (const Awaited& each : awaited) {
    if (!synchronize(*each.context)) return 0;
    completed.push_back(std::make_shared<EventLease>(events_(*each.context).acquire()));
  }
  std::size_t blocks = 0;
  for (std::size_t index = 0; index < awaited.size(); ++index) {
    const OwnerId owner = awaited[index].freed.owner;
    {
      const MutexLock lock(heap_.mutex);
      if (!heap_.streams.contains(owner)) continue;
      blocks += open_one(awaited[index].freed);
      uses_.seal(owner, clock, completed[index]);
      heap_.count_blocks();
    }
    for (;;) {
      RecordedEvent oldest;
      {
        const MutexLock lock(heap_.mutex);
        if (uses_.has_marks(owner)) oldest = uses_.front(owner);
      }
      const bool has_completed = oldest.event != nullptr && (oldest.event == completed[index] ||
                                                             has_passed(owner, oldest.event));
      if (!has_completed) break;
      blocks += complete(owner, oldest);
    }
  }
  return blocks;
}

void StreamOrder::wait_for_all() {
  std::vector<EndOfWork> ends;
  std::vector<DeviceContext*> contexts;
  {
    const MutexLock slow(heap_.slow_mutex);
    std::vector<OwnerId> owners;
    {
      const MutexLock lock(heap_.mutex);
      owners = heap_.streams.all();
      for (const OwnerId owner : owners) {
        const StreamTable::Entry& entry = heap_.streams.entry(owner);
        if (entry.is_drain_observable()) continue;
        if (std::ranges::find(contexts, &entry.stream.context()) == contexts.end()) {
          contexts.push_back(&entry.stream.context());
        }
      }
    }
    ends = ends_of_work(owners);
  }
  for (const EndOfWork& end : ends) {
    if (end.event != nullptr) sync_unchecked(end.event->ref());
  }
  for (DeviceContext* const context : contexts) {
    if (synchronize(*context)) continue;
    throw StreamCaptured(heap_.name +
                         " awaits streams that berth does not own, and cannot wait for the device "
                         "while a stream of it is captured");
  }
}

}  // namespace berth
