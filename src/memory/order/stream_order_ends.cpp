// SPDX-License-Identifier: Apache-2.0
// The end of streams: retired streams, and streams that were destroyed without notice.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "berth/error.hpp"

#include "memory/order/stream_order.hpp"
#include "memory/source/mapping_notices.hpp"
#include "stream/capture.hpp"
#include "stream/mark_or_wait.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"

namespace berth {

void StreamOrder::retire(StreamRef stream) noexcept {
  try {
    retire_here(stream);
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::error, heap_.name, ": a stream could not be retired", error);
  }
  wait_for_handle_uses(stream);  // the caller destroys it after this
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
    return quarantine(*id, InvalidArgument("it ends in on_map or on_unmap; accepted: elsewhere"));
  }
  const LastWork end = mark_or_wait(stream, events_(stream.context()), heap_.name);
  {
    const MutexLock slow(heap_.slow_mutex);  // after this, no query names the stream
    const MutexLock lock(heap_.mutex);
    id = heap_.streams.find(stream);
    if (!id) return;
    heap_.drop_caches_of(*id);
    uses_.seal(*id, uses_.now(), end.event);
    switch (end.state) {
      case LastWork::State::marked:
      case LastWork::State::over:
        heap_.streams.retire(*id, end.event);
        break;
      case LastWork::State::captured:
        heap_.streams.retire_unordered(*id);
        break;
      case LastWork::State::unknown:
        heap_.streams.mark_destroyed(*id);
        break;
    }
    if (heap_.streams.is_drained(*id)) heap_.blocks.transfer(*id, kUnowned, heap_.blocks.serial());
    forget_streams();
    heap_.count_blocks();
  }
  if (end.state == LastWork::State::captured) {
    driver_.report(Severity::warning, [&] {
      return heap_.name +
             ": a stream is destroyed during a capture, so the completion of its work is "
             "unknown: its cached memory is not reused";
    });
  } else if (end.state == LastWork::State::unknown) {
    driver_.report(Severity::warning, [&] {
      return heap_.name +
             ": a stream ends of which the driver accepts no call, so the completion of its work "
             "is unknown: its memory is reused once the device is idle";
    });
  }
}

/// Under no other lock, except that of a callback's caller: such a call may wait for room in the
/// stream's queue, and so for the GPU.
void StreamOrder::wait_for_handle_uses(StreamRef ending) noexcept {
  const MutexLock lock(heap_.mutex);
  while (heap_.streams.is_handle_used(ending)) handle_use_ended_.wait(heap_.mutex);
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

SharedEvent StreamOrder::try_synchronize(DeviceContext& context) noexcept {
  try {
    if (!synchronize(context)) return nullptr;
    return std::make_shared<EventLease>(events_(context).acquire());
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    driver_.report(Severity::warning, heap_.name, ": a device cannot be waited for", error);
    return nullptr;
  }
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
  std::map<DeviceContext*, SharedEvent> passed;  // null: the device is not idle
  for (const Awaited& each : awaited) {
    const auto [known, is_new] = passed.try_emplace(each.context);
    if (is_new) known->second = try_synchronize(*each.context);
  }
  std::size_t blocks = 0;
  for (const Awaited& each : awaited) {
    const OwnerId owner = each.freed.owner;
    const SharedEvent& completed = passed.at(each.context);
    if (completed == nullptr) continue;
    {
      const MutexLock lock(heap_.mutex);
      if (!heap_.streams.contains(owner)) continue;
      blocks += disown_one(each.freed);
      uses_.seal(owner, clock, completed);
      heap_.count_blocks();
    }
    for (;;) {
      RecordedEvent oldest;
      {
        const MutexLock lock(heap_.mutex);
        if (uses_.has_marks(owner)) oldest = uses_.front(owner);
      }
      const bool is_complete = oldest.event != nullptr &&
                               (oldest.event == completed || has_completed(owner, oldest.event));
      if (!is_complete) break;
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
    if (!may_be_capturing(*context)) {
      const ContextScope scope(*context);
      const CUresult result = try_wait_for(*context);
      if (result == CUDA_SUCCESS) continue;
      if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        throw DriverError(heap_.name +
                              " awaits streams that berth can no longer query, and the wait for "
                              "the device failed: " +
                              driver_.describe(result),
                          result);
      }
    }
    throw StreamCaptured(heap_.name +
                         " awaits streams that berth does not own, and cannot wait for the device "
                         "while a stream of it is captured");
  }
}

}  // namespace berth
