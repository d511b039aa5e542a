// SPDX-License-Identifier: Apache-2.0
// Uses of blocks by other streams, which are recorded, marked by events, and awaited before a block
// is reused. Events are recorded and polled without the heap's lock, which is taken before and
// after.
#include <algorithm>
#include <optional>
#include <utility>

#include "berth/error.hpp"

#include "memory/gauge.hpp"
#include "memory/order/stream_order.hpp"
#include "memory/source/mapping_notices.hpp"
#include "stream/capture.hpp"
#include "stream/default_streams.hpp"
#include "stream/mark_or_wait.hpp"

namespace berth {
namespace {

constexpr const char* kRecordUse = "record a use of";

}  // namespace

SharedEvent StreamOrder::record(StreamRef stream) {
  return record_event(stream, events_(stream.context()));
}

SharedEvent StreamOrder::record_reclaiming(StreamRef stream) {
  try {
    return record(stream);
  } catch (const Exhausted&) {
    reclaim();
  }
  return record(stream);
}

void StreamOrder::record_stream(void* data, StreamRef stream) {
  bool needs_seal_now = false;
  OwnerId user = kUnowned;
  {
    const MutexLock lock(heap_.mutex);
    Block& block = heap_.require_live(data, "record a stream on");
    user = heap_.streams.id_of(stream);
    if (user == block.owner) return;
    uses_.add(block, {user, {}});
    needs_seal_now = uses_.needs_seal(user) && !heap_.streams.entry(user).is_owned();
  }
  if (!needs_seal_now || MappingNotices::is_inside()) return;  // a later call marks it
  const MutexLock slow(heap_.slow_mutex);
  mark_request_stream(stream, user);
}

void StreamOrder::record_use(void* data, StreamRef stream) {
  refuse_per_thread_default(stream);
  std::optional<bool> is_captured;
  if (is_host_memory_) {
    const CaptureState capture = capture_of(stream);
    if (hold_for(capture, data, stream, kRecordUse)) return;
    is_captured = capture.is_capturing;
  }
  RecordedEvent end;
  std::uint64_t began = 0;
  {
    const MutexLock lock(heap_.mutex);
    const Block& block = heap_.require_live(data, kRecordUse);
    const std::optional<OwnerId> user = heap_.streams.find(stream);
    if (user && (*user == block.owner || uses_.lasts(block, *user))) return;
    began = uses_.now();
  }
  // Captured work cannot be marked now: the free or a later query marks it.
  if (!is_captured) is_captured = is_capturing(stream);
  if (!*is_captured) {
    try {
      end.event = record(stream);
    } catch (const Exhausted&) {
      MappingNotices::require_outside("record_use()");
      const MutexLock slow(heap_.slow_mutex);
      end.event = record_reclaiming(stream);
    }
  }
  const MutexLock lock(heap_.mutex);
  Block& block = heap_.require_live(data, kRecordUse);
  if (end.event != nullptr) {
    end.after = began;
    end.before = uses_.tick();
  }
  const OwnerId user = heap_.streams.id_of(stream);
  if (user != block.owner) uses_.add(block, {user, std::move(end)});
}

void StreamOrder::mark_request_stream(StreamRef stream, OwnerId owner) {
  std::uint64_t began = 0;
  std::uint64_t serial = 0;
  {
    const MutexLock lock(heap_.mutex);
    if (!heap_.streams.contains(owner)) return;
    const StreamTable::Entry& entry = heap_.streams.entry(owner);
    if (entry.retired || entry.is_owned()) return;
    serial = heap_.blocks.serial();
    const bool has_freed = heap_.streams.count() > 1 && entry.marks.covered() < serial &&
                           !heap_.blocks.free_blocks(owner).empty();
    if (!has_freed && !uses_.needs_seal(owner)) return;
    began = uses_.now();
  }
  const RelaxedCapture relaxed(driver_);
  if (is_capturing(stream)) return;
  SharedEvent event = record_reclaiming(stream);
  const MutexLock lock(heap_.mutex);
  if (!heap_.streams.contains(owner) || heap_.streams.entry(owner).retired) return;
  uses_.seal(owner, began, event);
  heap_.streams.marks(owner).add(std::move(event), serial);
}

bool StreamOrder::defer(Block& block, Ledger& ledger, Unsealed& unsealed) {
  uses_.drop_if(block, [this](const BlockUses::Use& use) BERTH_UNDER_LOCK {
    return heap_.streams.has_completed(use.stream, use.end);
  });
  if (!uses_.any(block)) return false;
  uses_.for_each(block, [&](const BlockUses::Use& use) {
    if (use.end.event != nullptr || unsealed.count == unsealed.streams.size()) return;
    unsealed.streams[unsealed.count++] = use.stream;
  });
  ++heap_.counters.frees_deferred;
  heap_.apply_bytes(ledger);
  raise_gauge(heap_.counters.bytes_active, block.bytes);
  raise_gauge(heap_.demand, block.bytes);
  heap_.blocks.set_pending(block);
  uses_.defer(block);
  BERTH_CHECK(block.state() == Block::State::pending && block.uses.marks_left > 0);
  return true;
}

void StreamOrder::seal(const Unsealed& unsealed) noexcept {
  for (std::size_t index = 0; index < unsealed.count; ++index) {
    try {
      seal(unsealed.streams[index]);
    } catch (const std::exception& error) {  // an Error or std::bad_alloc
      driver_.report(Severity::warning, heap_.name,
                     ": an event could not be recorded for a deferred free, will retry", error);
    }
  }
}

/// Not for a stream that berth does not own, because its handle may have been destroyed. The next
/// call that names the stream marks it.
void StreamOrder::seal(OwnerId stream) {
  std::uint64_t began = 0;
  std::optional<HandleUse> handle_use;
  std::optional<View> view;
  {
    const MutexLock lock(heap_.mutex);
    if (!uses_.needs_seal(stream)) return;
    began = uses_.now();
    view = view_in_lock(stream, handle_use);
  }
  const View& used = *view;
  if (used.is_retired ? used.is_unordered : !used.may_use_handle || is_capturing(used.stream))
    return;
  const SharedEvent event = used.is_retired ? used.last_work : record(used.stream);
  const MutexLock lock(heap_.mutex);
  uses_.seal(stream, began, event);
}

std::size_t StreamOrder::complete(OwnerId stream, const RecordedEvent& end) {
  const MutexLock lock(heap_.mutex);
  if (!heap_.streams.contains(stream)) return 0;  // dropped by another thread
  if (end.event != nullptr) heap_.streams.set_completed(stream, end);
  const std::size_t ready = uses_.complete(
      stream, end.event, [this](Block& block) BERTH_UNDER_LOCK { release_deferred(block); });
  heap_.count_blocks();
  return ready;
}

void StreamOrder::release_deferred(Block& block) {
  release_deferred(block, heap_.owner_once_free(block.owner));
}

void StreamOrder::release_deferred(Block& block, OwnerId to) {
  BERTH_CHECK(block.state() == Block::State::pending);
  ++heap_.counters.frees_reclaimed;
  lower_gauge(heap_.counters.bytes_active, block.bytes);
  lower_gauge(heap_.demand, block.bytes);
  heap_.blocks.release(block, to);
}

std::size_t StreamOrder::reclaim() {
  std::vector<OwnerId> streams;
  {
    const MutexLock lock(heap_.mutex);
    if (!uses_.has_deferred()) return 0;
    streams = uses_.streams();
  }
  std::size_t reclaimed = 0;
  const RelaxedCapture relaxed(driver_);
  for (const OwnerId stream : streams) {
    seal(Unsealed{{stream}, 1});
    for (;;) {
      RecordedEvent oldest;
      bool is_drained = false;
      {
        const MutexLock lock(heap_.mutex);
        if (!uses_.has_marks(stream)) break;
        oldest = uses_.front(stream);
        is_drained = heap_.streams.is_drained(stream);
      }
      if (!is_drained && (oldest.event == nullptr || !has_completed(stream, oldest.event))) break;
      reclaimed += complete(stream, oldest);
    }
  }
  return reclaimed;
}

std::optional<StreamOrder::Deferred> StreamOrder::find_oldest(std::uint64_t made_by,
                                                              std::span<const OwnerId> excluded) {
  std::vector<OwnerId> streams;
  {
    const MutexLock lock(heap_.mutex);
    if (!uses_.has_deferred()) return std::nullopt;
    streams = uses_.streams();
  }
  const RelaxedCapture relaxed(driver_);
  for (const OwnerId stream : streams) {
    if (std::ranges::find(excluded, stream) != excluded.end()) continue;
    seal(Unsealed{{stream}, 1});
    const MutexLock lock(heap_.mutex);
    if (!uses_.has_marks(stream) || uses_.front_made(stream) > made_by) continue;
    RecordedEvent oldest = uses_.front(stream);
    if (oldest.event == nullptr && !heap_.streams.is_drained(stream)) continue;
    ++heap_.counters.deferred_free_waits;
    return Deferred{stream, std::move(oldest)};
  }
  return std::nullopt;
}

bool StreamOrder::wait_for_oldest(std::uint64_t made_by) {
  std::vector<OwnerId> failed;
  for (;;) {
    std::optional<Deferred> oldest;
    {
      const MutexLock slow(heap_.slow_mutex);
      oldest = find_oldest(made_by, failed);
    }
    if (!oldest) return false;
    const SharedEvent& event = oldest->end.event;
    // Without a lock, because another thread may have to allocate before it submits the awaited
    // work.
    if (event != nullptr && !wait_for(oldest->stream, event)) {
      failed.push_back(oldest->stream);
      continue;
    }
    const MutexLock slow(heap_.slow_mutex);
    complete(oldest->stream, oldest->end);
    return true;
  }
}

}  // namespace berth
