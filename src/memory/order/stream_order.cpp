// SPDX-License-Identifier: Apache-2.0
// The transfer of freed memory between streams.
#include "memory/order/stream_order.hpp"

#include <algorithm>
#include <iterator>

#include "berth/error.hpp"

#include "stream/capture.hpp"
#include "stream/mark_or_wait.hpp"
#include "stream/unchecked.hpp"

namespace berth {

void StreamOrder::on_failed_query(OwnerId owner, const DriverError& error) {
  if (is_of_destroyed_stream(error)) {
    quarantine(owner, error);
  } else {
    tolerate(owner, error);
  }
}

void StreamOrder::tolerate(OwnerId owner, const DriverError& error) {
  if (!is_host_memory_) throw;  // `error`, which the caller has caught
  {
    const MutexLock lock(heap_.mutex);
    if (!heap_.streams.contains(owner) || !heap_.streams.note_failure(owner)) return;
  }
  driver_.report(Severity::warning, heap_.name,
                 ": a stream cannot be queried; the blocks that it uses are not reused", error);
}

bool StreamOrder::has_completed(OwnerId owner, const SharedEvent& event) {
  try {
    return event->ref().is_done();
  } catch (const DriverError& error) {
    tolerate(owner, error);
    return false;
  }
}

bool StreamOrder::wait_for(OwnerId owner, const SharedEvent& event) {
  try {
    sync_unchecked(event->ref());
    return true;
  } catch (const DriverError& error) {
    tolerate(owner, error);
    return false;
  }
}

StreamOrder::View StreamOrder::view_in_lock(OwnerId owner, std::optional<HandleUse>& handle_use) {
  const StreamTable::Entry& entry = heap_.streams.entry(owner);
  const bool may_use_handle = !entry.retired && entry.is_owned();
  if (may_use_handle) handle_use.emplace(*this, owner);
  return {.stream = entry.stream,
          .is_retired = entry.retired,
          .is_unordered = entry.unordered || entry.destroyed,
          .may_use_handle = may_use_handle,
          .last_work = entry.last_work,
          .serial = heap_.blocks.serial()};
}

std::optional<Freed> StreamOrder::find_done(OwnerId owner, StreamQueries& queries) {
  queries.begin();
  std::optional<HandleUse> handle_use;
  const View stream = view(owner, handle_use);
  const Freed all = {owner, stream.serial, stream.is_retired};
  if (stream.is_retired) {
    if (stream.is_unordered) return std::nullopt;
    const bool is_done = stream.last_work == nullptr || has_completed(owner, stream.last_work);
    return is_done ? std::optional(all) : std::nullopt;
  }
  if (!stream.may_use_handle) return find_done_by_marks(owner);
  try {
    return queries.is_idle(stream.stream) ? std::optional(all) : std::nullopt;
  } catch (const DriverError& error) {
    on_failed_query(owner, error);
    return std::nullopt;
  }
}

std::optional<Freed> StreamOrder::find_done_by_marks(OwnerId owner) {
  for (;;) {
    FreeMarks::Mark oldest;
    {
      const MutexLock lock(heap_.mutex);
      const FreeMarks& marks = heap_.streams.marks(owner);
      if (marks.empty()) break;
      oldest = marks.oldest();
    }
    if (!has_completed(owner, oldest.event)) break;
    const MutexLock lock(heap_.mutex);
    heap_.streams.marks(owner).complete(oldest.serial);
  }
  const MutexLock lock(heap_.mutex);
  const std::uint64_t completed = heap_.streams.marks(owner).completed();
  return completed > 0 ? std::optional(Freed{owner, completed}) : std::nullopt;
}

std::vector<OwnerId> StreamOrder::owners_to_query() {
  const MutexLock lock(heap_.mutex);
  std::vector<OwnerId> found;
  std::ranges::set_union(heap_.blocks.owners_with_free_blocks(), heap_.streams.draining(),
                         std::back_inserter(found));
  return found;
}

std::vector<Freed> StreamOrder::idle(std::size_t queries_max) {
  if (heap_.keeps_memory) return {};
  const std::vector<OwnerId> owners = owners_to_query();
  return idle_among(std::span(owners).first(std::min(owners.size(), queries_max)));
}

std::vector<Freed> StreamOrder::idle_among(std::span<const OwnerId> owners) {
  std::vector<Freed> idle;
  idle.reserve(owners.size());
  StreamQueries queries(driver_);
  for (const OwnerId owner : owners) {
    if (const auto done = find_done(owner, queries)) idle.push_back(*done);
  }
  return idle;
}

std::size_t StreamOrder::disown(std::span<const Freed> idle) {
  std::size_t blocks = 0;
  for (const Freed& freed : idle) {
    // Locked for each stream, because there may be very many blocks and other threads wait
    // meanwhile.
    const MutexLock lock(heap_.mutex);
    blocks += disown_one(freed);
    heap_.count_blocks();
  }
  return blocks;
}

std::size_t StreamOrder::disown_one(const Freed& freed) {
  if (freed.is_last && heap_.streams.contains(freed.owner)) heap_.streams.mark_drained(freed.owner);
  const std::size_t blocks = heap_.blocks.transfer(freed.owner, kUnowned, freed.serial);
  heap_.counters.blocks_passed_on += blocks;
  return blocks;
}

std::size_t StreamOrder::disown_drained() {
  std::vector<OwnerId> ended;
  {
    const MutexLock lock(heap_.mutex);
    ended = heap_.streams.draining();
  }
  return disown(idle_among(ended));
}

bool StreamOrder::is_all_marked(const Freed& freed) {
  const MutexLock lock(heap_.mutex);
  const StreamTable::Entry& entry = heap_.streams.entry(freed.owner);
  return entry.retired || entry.is_owned() || heap_.blocks.freed_last(freed.owner) <= freed.serial;
}

bool StreamOrder::others_can_serve(const Request& request) {
  const MutexLock lock(heap_.mutex);
  return heap_.blocks.others_have_free(request.owner, request.bytes);
}

// A stream grows if it loses memory that it will soon need, and streams that take turns would pass
// all of their memory back and forth. So memory becomes unowned only in quiescent moments of the
// program, when every stream is idle; otherwise only the minimum that serves the request is
// transferred.
std::size_t StreamOrder::disown_all_idle() {
  {
    const MutexLock lock(heap_.mutex);
    quiescence_owners_ = heap_.blocks.owners_with_free_blocks(std::move(quiescence_owners_));
    std::erase_if(quiescence_owners_,
                  [&](OwnerId owner) BERTH_UNDER_LOCK {  // never known to be idle
                    const StreamTable::Entry& entry = heap_.streams.entry(owner);
                    return entry.unordered || entry.destroyed;
                  });
  }
  if (heap_.keeps_memory || quiescence_owners_.size() > kQueriesMax) {
    quiescence_.forget_last_busy();
    return 0;
  }
  const auto busy = std::ranges::find(quiescence_owners_, quiescence_.last_busy());
  if (busy != quiescence_owners_.end()) std::swap(*busy, quiescence_owners_.front());
  StreamQueries queries(driver_);
  quiescence_idle_.clear();
  for (const OwnerId owner : quiescence_owners_) {
    const auto done = find_done(owner, queries);
    if (!done || !is_all_marked(*done)) {
      quiescence_.record_busy(done ? kUnowned : owner);
      return 0;
    }
    quiescence_idle_.push_back(*done);
  }
  quiescence_.record_idle();
  return disown(quiescence_idle_);
}

std::size_t StreamOrder::borrow(const Request& request) {
  std::vector<OwnerId> fits;
  {
    const MutexLock lock(heap_.mutex);
    fits = heap_.blocks.owners_with_fit(request.bytes);
  }
  StreamQueries queries(driver_);
  std::size_t queries_left = kQueriesMax;
  for (const OwnerId owner : fits) {
    if (owner == request.owner || owner == quiescence_.last_busy()) continue;
    if (queries_left-- == 0) return 0;
    const auto done = find_done(owner, queries);
    if (!done) continue;
    const MutexLock lock(heap_.mutex);
    if (!heap_.blocks.transfer_fit(owner, request.owner, done->serial, request.bytes)) continue;
    ++heap_.counters.blocks_passed_on;
    heap_.count_blocks();
    return 1;
  }
  return pass_on_missing_granules(request, queries, queries_left);
}

std::size_t StreamOrder::pass_on_missing_granules(const Request& request, StreamQueries& queries,
                                                  std::size_t queries_left) {
  std::vector<OwnerId> owners;
  std::size_t missing = 0;
  {
    const MutexLock lock(heap_.mutex);
    const std::size_t needed = heap_.blocks.granules_needed(request.bytes) + 1;
    const std::size_t own = heap_.blocks.whole_granules_for(request.owner);
    missing = needed > own ? needed - own : 0;
    if (missing == 0) return 0;
    owners = heap_.blocks.owners_with_free_blocks();
    std::erase_if(owners, [&](OwnerId owner) BERTH_UNDER_LOCK {
      return owner == request.owner || heap_.blocks.whole_granules(owner) == 0;
    });
  }
  std::size_t passed_on = 0;
  for (const OwnerId owner : owners) {
    if (missing == 0 || queries_left-- == 0) break;
    const auto done = find_done(owner, queries);
    if (!done) continue;
    const MutexLock lock(heap_.mutex);
    const std::size_t moved =
        heap_.blocks.transfer_granules(owner, request.owner, done->serial, missing);
    missing -= moved;
    passed_on += moved > 0 ? 1 : 0;
    heap_.counters.blocks_passed_on += moved > 0 ? 1 : 0;
    heap_.count_blocks();
  }
  return passed_on;
}

std::optional<StreamOrder::EndOfWork> StreamOrder::end_of_work(OwnerId owner) {
  std::optional<HandleUse> handle_use;
  const View stream = view(owner, handle_use);
  const Freed all = {owner, stream.serial, stream.is_retired};
  if (stream.is_unordered) return std::nullopt;
  if (stream.is_retired) return EndOfWork{all, stream.last_work};
  if (!stream.may_use_handle) {
    const MutexLock lock(heap_.mutex);
    const FreeMarks& marks = heap_.streams.marks(owner);
    if (marks.covered() == 0) return std::nullopt;
    return EndOfWork{{owner, marks.covered()}, marks.empty() ? nullptr : marks.newest().event};
  }
  try {
    if (is_capturing(stream.stream)) return std::nullopt;
    return EndOfWork{all, record(stream.stream)};
  } catch (const DriverError& error) {
    on_failed_query(owner, error);
    return std::nullopt;
  } catch (const Exhausted&) {  // all events are leased: the memory stays where it is
    return std::nullopt;
  }
}

std::vector<StreamOrder::EndOfWork> StreamOrder::ends_of_work(std::span<const OwnerId> owners) {
  std::vector<EndOfWork> ends;
  if (owners.empty()) return ends;
  ends.reserve(owners.size());
  const RelaxedCapture relaxed(driver_);
  for (const OwnerId owner : owners) {
    if (auto end = end_of_work(owner)) ends.push_back(std::move(*end));
  }
  return ends;
}

std::vector<Freed> StreamOrder::wait_until_idle() {
  std::vector<EndOfWork> ends;
  {
    const MutexLock slow(heap_.slow_mutex);
    ends = ends_of_work(owners_to_query());
  }
  std::vector<Freed> idle;
  idle.reserve(ends.size());
  for (const EndOfWork& end : ends) {
    if (end.event == nullptr || wait_for(end.freed.owner, end.event)) idle.push_back(end.freed);
  }
  return idle;
}

}  // namespace berth
