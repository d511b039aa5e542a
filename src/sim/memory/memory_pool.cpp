// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_pool.hpp"

#include <algorithm>
#include <iterator>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "sim/check/stream_order.hpp"
#include "sim/memory/device_segment.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kAlignment = 512;

}  // namespace

MemoryPool::MemoryPool(Handle handle_, int device_, std::uint64_t bytes_max)
    : handle(handle_),
      device(device_),
      readers(device_bit(device_)),
      writers(device_bit(device_)),
      bytes_max_(bytes_max) {}

bool MemoryPool::may_reuse(State& state, const Stream& stream, const Piece& piece,
                           Reuse reuse) const {
  const Ticket& free = piece.behind.ticket;
  if (free.stream == 0 || free.stream == stream.handle) return true;
  if (reuse >= Reuse::after_events && policy.follow_event_dependencies &&
      state.order.precedes(piece.behind.stamp, stream.order))
    return true;
  if (reuse >= Reuse::opportunistic && policy.allow_opportunistic && state.scheduler.done(free))
    return true;
  return reuse >= Reuse::behind_waits && policy.allow_internal_dependencies;
}

std::optional<std::uint64_t> MemoryPool::find(State& state, const Stream& stream,
                                              std::uint64_t bytes, Reuse reuse) const {
  std::optional<std::uint64_t> best;
  std::uint64_t best_bytes = 0;
  for (auto piece = free_.begin(); piece != free_.end();) {
    const std::uint64_t start = piece->first;
    const std::uint64_t segment = piece->second.segment;
    std::uint64_t end = start;
    while (piece != free_.end() && piece->first == end && piece->second.segment == segment &&
           may_reuse(state, stream, piece->second, reuse)) {
      end += piece->second.bytes;
      ++piece;
    }
    if (end == start) ++piece;
    const bool fits = end - start >= bytes;
    if (!fits || (best && best_bytes <= end - start)) continue;
    best = start;
    best_bytes = end - start;
  }
  return best;
}

MemoryPool::Room MemoryPool::take(const Stream& stream, std::uint64_t start, std::uint64_t bytes) {
  const std::uint64_t segment = free_.at(start).segment;
  Room room{start, segments_.at(segment), start - segment, {}};
  for (std::uint64_t left = bytes; left != 0;) {
    const auto first = free_.find(start);
    const Piece piece = first->second;
    free_.erase(first);
    if (piece.behind.ticket.stream != stream.handle) room.after.push_back(piece.behind);
    const std::uint64_t taken = std::min(left, piece.bytes);
    if (taken != piece.bytes)
      free_.emplace(start + taken, Piece{piece.bytes - taken, segment, piece.behind});
    start += taken;
    left -= taken;
  }
  bytes_used_ += bytes;
  bytes_used_peak_ = std::max(bytes_used_peak_, bytes_used_);
  return room;
}

void MemoryPool::await_synchronization(State& state) {
  if (!std::exchange(awaits_synchronization_, true)) state.pools_to_synchronize.push_back(handle);
}

bool MemoryPool::grow(State& state, std::uint64_t bytes) {
  const std::uint64_t granules = align_up(bytes, state.config.granularity);
  if (bytes_max_ != 0 && granules > bytes_max_ - std::min(bytes_max_, bytes_reserved_))
    return false;
  const DeviceSegment segment = make_segment(state, device, granules);
  if (segment.block == nullptr) return false;
  await_synchronization(state);
  segments_.emplace(segment.start, segment.block);
  free_.emplace(segment.start, Piece{granules, segment.start, {}});
  bytes_reserved_ += granules;
  bytes_reserved_peak_ = std::max(bytes_reserved_peak_, bytes_reserved_);
  return true;
}

std::optional<MemoryPool::Room> MemoryPool::allocate(State& state, Stream& stream,
                                                     std::uint64_t bytes) {
  if (bytes > state.devices[static_cast<std::size_t>(device)].memory->bytes_total())
    return std::nullopt;  // also: no overflow below
  bytes = align_up(bytes, kAlignment);
  join_default_streams(state, stream);
  for (const Reuse reuse : {Reuse::in_order, Reuse::after_events, Reuse::opportunistic})
    if (const auto start = find(state, stream, bytes, reuse)) return take(stream, *start, bytes);
  bool grown = grow(state, bytes);
  if (!grown) {
    trim(state, 0);  // free memory in pieces that are too small
    grown = grow(state, bytes);
  }
  // New memory is preferred to waiting, as with memory that is in order.
  const Reuse last = grown ? Reuse::in_order : Reuse::behind_waits;
  if (const auto start = find(state, stream, bytes, last)) return take(stream, *start, bytes);
  return std::nullopt;
}

void MemoryPool::release(State& state, const Range& range, Submitted behind) {
  await_synchronization(state);
  const std::uint64_t bytes = align_up(range.bytes, kAlignment);
  free_.emplace(range.start, Piece{bytes, range.start - range.block_offset, std::move(behind)});
  bytes_used_ -= bytes;
}

void MemoryPool::observe(State& state) {
  for (auto& [start, piece] : free_)
    if (state.scheduler.done(piece.behind.ticket)) piece.behind.ticket = {};
}

void MemoryPool::coalesce() {
  for (auto piece = free_.begin(); piece != free_.end();) {
    const auto next = std::next(piece);
    const bool joins = next != free_.end() && piece->first + piece->second.bytes == next->first &&
                       piece->second.segment == next->second.segment &&
                       piece->second.behind.ticket.stream == 0 &&
                       next->second.behind.ticket.stream == 0;
    if (!joins) {
      piece = next;
      continue;
    }
    piece->second.bytes += next->second.bytes;
    piece->second.behind.clock.join(next->second.behind.clock);
    free_.erase(next);
  }
}

void MemoryPool::trim(State& state, std::uint64_t bytes_kept) {
  coalesce();
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto [start, block] = *segment;
    const auto whole = free_.find(start);
    const bool idle = whole != free_.end() && whole->second.bytes == block->bytes &&
                      whole->second.behind.ticket.stream == 0;
    if (!idle || bytes_reserved_ < bytes_kept || bytes_reserved_ - bytes_kept < block->bytes) {
      ++segment;
      continue;
    }
    bytes_reserved_ -= block->bytes;
    free_.erase(whole);
    state.addresses.forget_freed(start, block->bytes);
    drop_segment(state, {start, block});
    segment = segments_.erase(segment);
  }
}

bool MemoryPool::awaits_frees() const {
  return std::any_of(free_.begin(), free_.end(),
                     [](const auto& entry) { return entry.second.behind.ticket.stream != 0; });
}

bool MemoryPool::synchronize(State& state) {
  awaits_synchronization_ = false;
  observe(state);
  const bool awaits = awaits_frees();
  if (awaits) await_synchronization(state);
  const bool ends = destroyed && bytes_used_ == 0 && !awaits;
  trim(state, ends ? 0 : policy.release_threshold);
  return !ends;
}

void synchronize_pools(State& state) {
  for (const Handle handle : std::exchange(state.pools_to_synchronize, {})) {
    MemoryPool* const pool = state.pools.find(handle);
    if (pool != nullptr && !pool->synchronize(state)) state.pools.erase(handle);
  }
  if (state.pools_to_synchronize.empty()) state.order.stop();
}

}  // namespace berth::sim
