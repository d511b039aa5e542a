// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_copy.hpp"

#include <algorithm>
#include <utility>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/unasked.hpp"

namespace berth {
namespace {

/// Small enough that several threads share a chunk, and that what is urgent seldom waits for one; large
/// enough that handing it out costs nothing beside it.
constexpr std::size_t kPieceBytes = 512_KiB;

}  // namespace

StagedCopy::StagedCopy(StreamRef stream, StagedRoute route, Staging staging)
    : stream_(stream),
      direction_(route.direction),
      host_(std::move(route.host)),
      device_(std::move(route.device)),
      bytes_(route.bytes),
      keep_alive_(std::move(route.keep_alive)),
      slot_bytes_(staging.slot_bytes),
      staging_(std::move(staging)),
      has_turn_(!staging_.is_shared()),
      turns_(staging_.is_shared() ? 1 : 0),
      moved_(staging_.slots.size(), 0) {
  BERTH_CHECK(bytes_ > 0);
  events_.reserve(steps());
  const Driver& driver = stream_.context().driver();
  driver.sim_host_forgets(this);  // what had the address before it
  driver.sim_host_releases(this);
}

void StagedCopy::tell_caller() const {
  stream_.context().driver().sim_host_acquires(this);
}

std::size_t StagedCopy::chunk_bytes(std::size_t chunk) const {
  return std::min(slot_bytes_, bytes_ - chunk * slot_bytes_);
}

void StagedCopy::submit(EventPool& events) {
  const ContextScope scope(stream_.context());
  if (staging_.is_shared() && direction_ == Direction::to_host) submit_gate(0);
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    submit_chunk(chunk);
    mark(events);
  }
  if (direction_ == Direction::to_device) return;
  submit_gate(chunks());
  mark(events);
}

void StagedCopy::submit_chunk(std::size_t chunk) {
  const std::size_t offset = chunk * slot_bytes_;
  std::byte* const slot = staging_.slot(chunk);
  if (direction_ == Direction::to_device) {
    submit_gate(chunk + 1);
    device_->submit_write(slot, offset, chunk_bytes(chunk), stream_);
    return;
  }
  if (chunk >= staging_.slots.size()) submit_gate(chunk + 1 - staging_.slots.size());
  device_->submit_read(slot, offset, chunk_bytes(chunk), stream_);
}

void StagedCopy::submit_gate(std::size_t chunks_done) {
  stream_.context().driver().stream_wait_value32(
      stream_.native(), reinterpret_cast<CUdeviceptr>(staging_.gate),
      static_cast<cuuint32_t>(turns_ + chunks_done), unsigned{CU_STREAM_WAIT_VALUE_GEQ});
}

void StagedCopy::mark(EventPool& events) {
  events_.push_back(events.acquire());
  record_unasked(events_.back(), stream_);
  submitted_.store(events_.size(), std::memory_order_release);
}

std::size_t StagedCopy::open_chunks() const {
  const std::size_t ahead = direction_ == Direction::to_device ? staging_.slots.size() : 0;
  return std::min(passed_ + ahead, chunks());
}

void StagedCopy::begin_turn() {
  BERTH_CHECK(!has_turn_);
  has_turn_ = true;
  set_gate(0);
  open_gates_if_given_up();
}

bool StagedCopy::has_piece() const {
  return has_turn_ && !device_ended_ && !is_all_taken() && taken_ / slot_bytes_ < open_chunks();
}

StagedCopy::Piece StagedCopy::take() {
  BERTH_CHECK(has_piece());
  const std::size_t chunk = taken_ / slot_bytes_;
  const std::size_t chunk_end = chunk * slot_bytes_ + chunk_bytes(chunk);
  const Piece piece{taken_, std::min(kPieceBytes, chunk_end - taken_)};
  taken_ += piece.bytes;
  ++pieces_in_hand_;
  return piece;
}

void StagedCopy::move(const Piece& piece) noexcept {
  if (is_given_up()) return;
  const std::size_t chunk = piece.offset / slot_bytes_;
  std::byte* const staging = staging_.slot(chunk) + piece.offset % slot_bytes_;
  const Driver& driver = stream_.context().driver();
  const ActingFor acting(driver, this);
  try {
    if (direction_ == Direction::to_device) {
      driver.sim_host_writes(staging, piece.bytes);
      host_->read(staging, piece.offset, piece.bytes);
    } else {
      driver.sim_host_reads(staging, piece.bytes);
      host_->write(staging, piece.offset, piece.bytes);
    }
  } catch (...) {
    give_up(std::current_exception());
  }
}

void StagedCopy::finish(const Piece& piece) {
  --pieces_in_hand_;
  moved_[piece.offset / slot_bytes_ % moved_.size()] += piece.bytes;
  if (direction_ == Direction::to_host) bytes_done_ += piece.bytes;
  const std::size_t before = chunks_moved_;
  while (chunks_moved_ < chunks()) {
    std::size_t& moved = moved_[chunks_moved_ % moved_.size()];
    if (moved < chunk_bytes(chunks_moved_)) break;
    moved = 0;
    ++chunks_moved_;
  }
  if (chunks_moved_ != before) set_gate(chunks_moved_);
  open_gates_if_given_up();
}

void StagedCopy::set_gate(std::size_t chunks_done) {
  const Driver& driver = stream_.context().driver();
  {
    const ActingFor acting(driver, this);
    driver.sim_host_releases(staging_.gate);
  }
  const std::atomic_ref<std::uint32_t> gate(*staging_.gate);
  const auto wanted = static_cast<std::uint32_t>(turns_ + chunks_done);
  // Only ever further: what has been opened for a copy that was given up stays open.
  std::uint32_t present = gate.load(std::memory_order_relaxed);
  while (present < wanted &&
         !gate.compare_exchange_weak(present, wanted, std::memory_order_release))
    continue;
}

std::optional<EventRef> StagedCopy::next_event() const {
  if (!has_turn_ || device_ended_ || answer_failed_) return std::nullopt;
  if (passed_ >= submitted_.load(std::memory_order_acquire)) return std::nullopt;
  return events_[passed_].ref();
}

void StagedCopy::pass() {
  BERTH_CHECK(passed_ < submitted_.load(std::memory_order_acquire));
  if (direction_ == Direction::to_device) bytes_done_ += chunk_bytes(passed_);
  ++passed_;
}

void StagedCopy::give_up(std::exception_ptr failure) noexcept {
  if (has_failure_.exchange(true)) return;
  failure_ = std::move(failure);
  given_up_.store(true, std::memory_order_release);
}

void StagedCopy::open_gates_if_given_up() noexcept {
  if (is_given_up() && has_turn_ && pieces_in_hand_ == 0 && !is_at_end()) set_gate(chunks());
}

std::exception_ptr StagedCopy::failure() const {
  return is_given_up() ? failure_ : nullptr;
}

void StagedCopy::release() {
  if (keep_alive_ != nullptr) tell_caller();  // what goes with it may rely on the copy's end
  const Driver& driver = stream_.context().driver();
  {
    const ActingFor acting(driver, this);
    for (const std::byte* slot : staging_.slots) driver.sim_host_recycles(slot, slot_bytes_);
    driver.sim_host_recycles(staging_.gate, sizeof(*staging_.gate));
  }
  events_.clear();
  host_ = nullptr;
  keep_alive_ = nullptr;
  staging_ = {};
}

}  // namespace berth
