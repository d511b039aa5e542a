// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/staged_copy.hpp"

#include <algorithm>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "device/device_context.hpp"
#include "driver/acting_for.hpp"
#include "stream/unchecked.hpp"

namespace berth {
namespace {

/// Small enough that several threads share a chunk, and that an urgent copy rarely waits for a
/// piece; large enough that the overhead of distribution is negligible.
constexpr std::size_t kPieceBytes = 512_KiB;

/// Entries of a chunk in the stream's queue beside those of its copy: gate and progress word.
constexpr std::size_t kEntriesBesideCopy = 2;

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
      turns_(staging_.is_shared() ? 1 : 0),
      chunks_a_mark_(std::max<std::size_t>(staging_.slots.size() / 2, 1)),
      chunks_ahead_(chunks_within(kEntriesMax)),
      progress_(staging_.progress),
      moved_(staging_.slots.size(), 0) {
  BERTH_CHECK(bytes_ > 0);
  // Both words count from 0: with an old value, one side would proceed before the other is ready.
  BERTH_CHECK(*staging_.gate == 0 && *staging_.progress == 0);
  marks_.reserve(chunks() / chunks_a_mark_ + 3);  // and the last chunk, the last gate, the end
  const Driver& driver = stream_.context().driver();
  driver.sim_host_forgets(this);  // the previous object at this address
  driver.sim_host_releases(this);
}

std::size_t StagedCopy::chunks_within(std::size_t entries) const {
  std::size_t of_copy = 1;
  for (std::size_t chunk = 0; chunk < chunks(); ++chunk) {
    const std::size_t offset = chunk * slot_bytes_;
    of_copy = std::max(of_copy, device_->entries_max(offset, chunk_bytes(chunk), stream_));
  }
  const std::size_t of_chunk = kEntriesBesideCopy + of_copy;
  return std::max<std::size_t>(entries * chunks_a_mark_ / (of_chunk * chunks_a_mark_ + 1), 1);
}

void StagedCopy::report_observed_progress() const {
  stream_.context().driver().sim_host_acquires(this);
}

std::size_t StagedCopy::chunk_bytes(std::size_t chunk) const {
  return std::min(slot_bytes_, bytes_ - chunk * slot_bytes_);
}

void StagedCopy::submit_first_gate() {
  BERTH_CHECK(begins_with_gate() && next_chunk_ == 0 && !is_first_gate_submitted_);
  const ContextScope scope(stream_.context());
  submit_gate(1);
  is_first_gate_submitted_ = true;
}

void StagedCopy::submit_until(std::size_t chunks_wanted, EventPool& events) {
  BERTH_CHECK(!is_all_submitted_ && !submission_ended_);
  const ContextScope scope(stream_.context());
  if (next_chunk_ == 0 && staging_.is_shared() && direction_ == Direction::to_host) submit_gate(0);
  for (; next_chunk_ < std::min(chunks_wanted, chunks()); ++next_chunk_) {
    submit_chunk(next_chunk_);
    submit_step(next_chunk_ + 1, events);
  }
  if (next_chunk_ < chunks()) return;
  if (direction_ == Direction::to_host) {
    submit_gate(chunks());
    submit_step(steps(), events);
  }
  is_all_submitted_ = true;
}

void StagedCopy::submit_chunk(std::size_t chunk) {
  const std::size_t offset = chunk * slot_bytes_;
  std::byte* const slot = staging_.slot(chunk);
  if (direction_ == Direction::to_device) {
    if (chunk > 0 || !is_first_gate_submitted_) submit_gate(chunk + 1);
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

void StagedCopy::submit_step(std::size_t step, EventPool& events) {
  // A missing step would never complete; a repeated step would be taken for a later one.
  BERTH_CHECK(step == steps_submitted_.load(std::memory_order_relaxed) + 1 && step <= steps());
  steps_submitted_.store(step, std::memory_order_relaxed);
  progress_.submit(step, stream_);
  if (step % chunks_a_mark_ == 0 || step >= chunks()) mark(step, events);
}

void StagedCopy::mark(std::size_t steps, EventPool& events) {
  auto event = std::make_shared<const EventLease>(events.acquire());
  record_unchecked(event->ref(), stream_);
  BERTH_CHECK(marks_.size() < marks_.capacity());              // other threads read it concurrently
  BERTH_CHECK(marks_.empty() || marks_.back().steps < steps);  // else later marks are not queried
  marks_.push_back({std::move(event), steps});
  marked_.store(marks_.size(), std::memory_order_release);
}

void StagedCopy::close(EventPool& events) {
  {
    const ContextScope scope(stream_.context());
    progress_.submit(kEnd, stream_);
  }
  mark(kEnd, events);
}

std::size_t StagedCopy::open_chunks() const {
  const std::size_t ahead = direction_ == Direction::to_device ? staging_.slots.size() : 0;
  return std::min(passed_ + ahead, chunks());
}

std::size_t StagedCopy::chunks_before(std::size_t steps) const {
  if (steps >= this->steps()) return chunks();
  if (direction_ == Direction::to_device) return steps;
  return steps - std::min(steps, staging_.slots.size());
}

void StagedCopy::begin_turn() {
  BERTH_CHECK(!has_turn_);
  BERTH_CHECK(staging_.blocks->user ==
              nullptr);  // otherwise copies would overwrite each other's chunks
  staging_.blocks->user = this;
  has_turn_ = true;
  if (turns_ > 0) open_gates(0);
  open_gates_if_failed();
}

void StagedCopy::end_submission() {
  BERTH_CHECK(!submission_ended_);
  BERTH_CHECK(is_all_submitted_ || has_failed());
  submission_ended_ = true;
}

void StagedCopy::end_turn() {
  BERTH_CHECK(staging_.blocks->user == this);
  BERTH_CHECK(pieces_in_progress_ == 0);
  const Driver& driver = stream_.context().driver();
  const ActingFor acting(driver, this);
  for (const std::byte* slot : staging_.slots) driver.sim_host_recycles(slot, slot_bytes_);
  driver.sim_host_recycles(staging_.gate, sizeof(*staging_.gate));
  driver.sim_host_recycles(staging_.progress, sizeof(*staging_.progress));
  staging_.blocks->user = nullptr;
}

bool StagedCopy::has_piece() const {
  return has_turn_ && !is_withheld_ && !device_ended_ && !is_all_taken() &&
         taken_ / slot_bytes_ < open_chunks();
}

StagedCopy::Piece StagedCopy::take() {
  BERTH_CHECK(has_piece());
  const std::size_t chunk = taken_ / slot_bytes_;
  const std::size_t chunk_end = chunk * slot_bytes_ + chunk_bytes(chunk);
  const Piece piece{taken_, std::min(kPieceBytes, chunk_end - taken_)};
  BERTH_CHECK(piece.bytes > 0 && piece.offset % slot_bytes_ + piece.bytes <= slot_bytes_);
  taken_ += piece.bytes;
  ++pieces_in_progress_;
  return piece;
}

void StagedCopy::move(const Piece& piece) noexcept {
  if (has_failed()) return;
  const std::size_t chunk = piece.offset / slot_bytes_;
  BERTH_CHECK(piece.offset + piece.bytes <=
              bytes_);  // memory behind it does not belong to the caller
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
    fail(std::current_exception());
  }
}

void StagedCopy::finish(const Piece& piece) {
  BERTH_CHECK(pieces_in_progress_ > 0);
  --pieces_in_progress_;
  if (has_failed()) return open_gates_if_failed();  // the device may be ahead of the host
  const std::size_t chunk = piece.offset / slot_bytes_;
  std::size_t& of_chunk = moved_[chunk % moved_.size()];
  of_chunk += piece.bytes;
  BERTH_CHECK(of_chunk <= chunk_bytes(chunk));
  if (direction_ == Direction::to_host) bytes_done_ += piece.bytes;
  while (chunks_moved_ < chunks()) {
    std::size_t& moved = moved_[chunks_moved_ % moved_.size()];
    if (moved < chunk_bytes(chunks_moved_)) break;
    moved = 0;
    ++chunks_moved_;
  }
  if (chunks_moved_ > gates_open_) open_gates(chunks_moved_);
}

void StagedCopy::open_gates(std::size_t chunks_done) {
  {
    const Driver& driver = stream_.context().driver();
    const ActingFor acting(driver, this);
    driver.sim_host_releases(staging_.gate);
  }
  const std::atomic_ref<std::uint32_t> gate(*staging_.gate);
  const auto value = static_cast<std::uint32_t>(turns_ + chunks_done);
  // The word is monotonic, and no other code writes it: otherwise the device could overtake the
  // host.
  BERTH_CHECK(has_turn_ && gate.load(std::memory_order_relaxed) < value);
  BERTH_CHECK(chunks_done <= chunks());
  gates_open_ = chunks_done;
  gate.store(value, std::memory_order_release);
}

bool StagedCopy::poll_progress() {
  if (device_ended_) return false;
  const Driver& driver = stream_.context().driver();
  const ActingFor acting(driver, this);
  const std::size_t steps = progress_.read(driver, passed_);
  if (steps <= passed_) return false;  // already known from a mark
  reach(steps);
  return true;
}

void StagedCopy::reach(std::size_t steps) {
  if (steps == kEnd)
    end_device();
  else
    pass_until(steps);
}

void StagedCopy::pass_until(std::size_t steps) {
  BERTH_CHECK(has_turn_);  // the device executes no step before the turn of the copy
  BERTH_CHECK(steps > passed_ && steps <= steps_submitted_.load(std::memory_order_relaxed));
  BERTH_CHECK(chunks_before(steps) <=
              gates_open_);  // otherwise the device has passed a closed gate
  passed_ = steps;
  // After a failure the device also passes chunks that no thread has filled.
  if (direction_ == Direction::to_device)
    bytes_done_ = std::min(std::min(passed_, chunks_moved_) * slot_bytes_, bytes_);
  const std::size_t marked = marked_.load(std::memory_order_acquire);
  while (next_mark_ < marked && marks_[next_mark_].steps <= passed_) ++next_mark_;
}

std::optional<StagedCopy::Mark> StagedCopy::next_mark() const {
  if (!has_turn_ || device_ended_) return std::nullopt;
  // Some marks may have been submitted after their steps had passed.
  std::size_t index = next_mark_;
  const std::size_t marked = marked_.load(std::memory_order_acquire);
  while (index < marked && marks_[index].steps <= passed_) ++index;
  if (index >= marked) return std::nullopt;
  return marks_[index];
}

std::optional<StagedCopy::Mark> StagedCopy::next_sure_mark() const {
  const std::optional<Mark> mark = next_mark();
  if (!mark || chunks_before(mark->steps) > gates_open_) return std::nullopt;
  return mark;
}

void StagedCopy::pass(const Mark& mark) {
  if (!device_ended_ && mark.steps > passed_) reach(mark.steps);
}

void StagedCopy::fail(std::exception_ptr failure) noexcept {
  BERTH_CHECK(failure != nullptr);
  if (failure_claimed_.exchange(true)) return;
  failure_ = std::move(failure);
  has_failed_.store(true, std::memory_order_release);
}

void StagedCopy::open_gates_if_failed() noexcept {
  if (has_failed() && has_turn_ && pieces_in_progress_ == 0 && gates_open_ < chunks())
    open_gates(chunks());
}

std::exception_ptr StagedCopy::failure() const {
  return has_failed() ? failure_ : nullptr;
}

void StagedCopy::note(unsigned fact) noexcept {
  constexpr unsigned kUnheard = kAbandoned | kComplete;
  const unsigned before = facts_.fetch_or(fact, std::memory_order_acq_rel);
  BERTH_CHECK(fact != kComplete || (before & kComplete) == 0);  // a copy ends once
  if (before != kUnheard && (before | fact) == kUnheard && has_failed()) report_failure();
}

void StagedCopy::report_failure() const noexcept {
  const Driver& driver = stream_.context().driver();
  const auto report = [&](const char* what) noexcept {
    driver.report(Severity::error, [&] {
      return format_text(
          "a copy of {} B {} {}, on its stream {}, has failed after {} B, and its Transfer is "
          "gone: "
          "{}",
          bytes_, direction_ == Direction::to_device ? "to" : "from", stream_.device().to_string(),
          static_cast<const void*>(stream_.native()), bytes_done(), what);
    });
  };
  try {
    std::rethrow_exception(failure_);
  } catch (const DriverError& error) {
    // At process exit the driver is deinitialized before its users, which is not a failure.
    if (error.driver_code() != CUDA_ERROR_DEINITIALIZED) report(error.what());
  } catch (const std::exception& error) {
    report(error.what());
  } catch (...) {
    report("a non-standard exception was thrown");
  }
}

void StagedCopy::release() {
  BERTH_CHECK(lane == nullptr && pieces_in_progress_ == 0);  // no thread accesses the slots
  BERTH_CHECK(device_ended_);  // a thread that still has the copy finds neither mark nor piece
  BERTH_CHECK(staging_.blocks != nullptr);  // called once
  marks_.clear();
  host_ = nullptr;
  staging_ = {};
}

void StagedCopy::release_owner() {
  BERTH_CHECK(staging_.blocks == nullptr);  // after release(): no thread accesses the memory
  if (keep_alive_ == nullptr) return;
  report_observed_progress();  // the destructor may rely on the end of the copy
  keep_alive_ = nullptr;
}

}  // namespace berth
