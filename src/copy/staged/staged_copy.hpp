// SPDX-License-Identifier: Apache-2.0
// One copy between a device and what only the host can reach, through staging memory.
//
// The row of bytes is cut into chunks, which use the slots of the staging memory round and round. What
// the device does is submitted to the caller's stream at once, and each step that depends on the host
// stands behind a gate: a wait of the stream for a word of pinned memory, which counts the chunks that
// the host is done with. How far the device is, an event behind each chunk tells.
//
//   to the device  stream: [gate: chunk c is filled]  copy slot -> target  [event c]
//                  host:   fills chunk c once the chunk that had its slot has passed
//   to the host    stream: [gate: its slot is empty]  copy source -> slot  [event c]  ... [gate: all]
//                  host:   empties the slot of chunk c once event c has passed
//
// A copy that shares its slots with earlier ones has its turn once those are over. What the device does for
// it stands behind a gate that opens then.
//
// So the stream never waits for another stream, which might wait for it, and the caller waits for
// nothing: what the streams wait for are threads that copy memory, and wait for nobody.
// Source: CUDA Driver API, "Stream Memory Operations".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "copy/side/copy_ends.hpp"
#include "copy/staged/staging_memory.hpp"

namespace berth {

/// What a staged copy is of.
struct StagedRoute {
  using Direction = CopyDirection;

  Direction direction;
  std::unique_ptr<HostEnd> host;
  std::unique_ptr<DeviceEnd> device;
  std::size_t bytes;  ///< 1 or more
  /// The source does not stay: StagedCopies::complete_host_side() follows.
  bool is_read_at_once = false;
  /// The host's end is a file: threads that may wait for a disk move it.
  bool waits_for_disk = false;
  /// Kept until the copy is over.
  std::shared_ptr<const void> keep_alive = nullptr;
};

/// Threads  submit() belongs to its maker. What HostWork calls is guarded by that one's lock, but for
///          move(), give_up() and what says so.
class StagedCopy {
 public:
  using Direction = StagedRoute::Direction;

  /// A stretch of one chunk, for one thread to move.
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };

  StagedCopy(StreamRef stream, StagedRoute route, Staging staging);

  /// Submits all that the device does, and the gates. The stream is not captured.
  /// Errors  DriverError, OutOfMemory: HostWork::abandon().
  void submit(EventPool& events);

  // The turns of copies that share slots.
  /// Whether the slots are its own by now.
  [[nodiscard]] bool has_turn() const { return has_turn_; }
  /// Those before it are over.
  void begin_turn();

  // The host's share.
  /// Whether there is something to move now.
  [[nodiscard]] bool has_piece() const;
  /// has_piece() is true.
  Piece take();
  /// Moves it, unless the copy has been given up. What goes wrong ends the copy.
  void move(const Piece& piece) noexcept;
  /// It has been moved, and the gates that this opens are open.
  void finish(const Piece& piece);
  [[nodiscard]] std::size_t pieces_in_hand() const { return pieces_in_hand_; }
  [[nodiscard]] bool is_all_taken() const { return taken_ == bytes_; }

  // The device's share, as far as the host knows.
  /// The event that tells of the device's next step; nullopt where it is not submitted yet, all have
  /// passed, the driver has failed to answer, the device takes no more steps, or it is not its turn.
  [[nodiscard]] std::optional<EventRef> next_event() const;
  [[nodiscard]] std::size_t steps_passed() const { return passed_; }
  void pass();
  /// submit() has come to its end, well or not.
  void end_submission() { submission_ended_ = true; }
  /// The driver has failed to answer. Perhaps the device has failed; perhaps it goes on.
  void note_failed_answer() { answer_failed_ = true; }
  /// Whether somebody should wait for what the device may still do before end_device().
  [[nodiscard]] bool wants_settling() const {
    return answer_failed_ && submission_ended_ && !device_ended_;
  }
  /// Behind all that was submitted. Something was.
  [[nodiscard]] EventRef last_event() const { return events_.back().ref(); }
  /// The device takes no more steps: it has failed, or what was submitted has passed. Nothing is asked
  /// about it from now on.
  void end_device() { device_ended_ = true; }

  /// Nobody will touch anything of it again, if nobody does now.
  [[nodiscard]] bool is_at_end() const {
    return device_ended_ || (passed_ == steps() && is_all_taken());
  }

  /// The copy has come to nothing: no byte is moved from now on. The first failure counts. Not once it
  /// may be over: only while a piece is in hand, or an asker asks, or under the lock.
  void give_up(std::exception_ptr failure) noexcept;
  /// Where it has been given up, the device waits for nothing any more. Not before its turn, nor while a
  /// thread still has a piece in hand: the stream is not to pass the copy before that one has left the
  /// target alone.
  void open_gates_if_given_up() noexcept;
  /// What went wrong; null where nothing has.
  [[nodiscard]] std::exception_ptr failure() const;
  [[nodiscard]] bool is_given_up() const { return given_up_.load(std::memory_order_acquire); }

  /// It is over: what it held goes back.
  void release();

  /// The calling thread learns from the copy how far the device is. Of a simulated driver's interest.
  void tell_caller() const;

  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] const Staging& staging() const { return staging_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Bytes that have arrived. Threads  any.
  [[nodiscard]] std::size_t bytes_done() const {
    return bytes_done_.load(std::memory_order_relaxed);
  }

  /// Of HostWork: threads that ask or wait for its events.
  std::size_t askers = 0;
  /// Of HostWork: who has the slots before it and after it.
  std::weak_ptr<StagedCopy> predecessor;
  std::weak_ptr<StagedCopy> successor;
  /// Of HostWork: it is over, and what it held has been given back. Threads  any.
  std::atomic<bool> is_over = false;

 private:
  [[nodiscard]] std::size_t chunks() const { return (bytes_ + slot_bytes_ - 1) / slot_bytes_; }
  [[nodiscard]] std::size_t steps() const {
    return chunks() + (direction_ == Direction::to_host ? 1 : 0);
  }
  [[nodiscard]] std::size_t chunk_bytes(std::size_t chunk) const;
  /// The chunk before which the host may move all.
  [[nodiscard]] std::size_t open_chunks() const;
  void submit_chunk(std::size_t chunk);
  void submit_gate(std::size_t chunks_done);
  void mark(EventPool& events);
  void set_gate(std::size_t chunks_done);

  const StreamRef stream_;
  const Direction direction_;
  std::unique_ptr<HostEnd> host_;
  const std::unique_ptr<DeviceEnd> device_;
  const std::size_t bytes_;
  std::shared_ptr<const void> keep_alive_;
  const std::size_t slot_bytes_;
  Staging staging_;
  bool has_turn_;
  const std::size_t turns_;  ///< what its gate counts before its chunks: its turn, or nothing

  std::vector<EventLease> events_;  ///< has room for all; submitted_ of them may be read
  std::atomic<std::size_t> submitted_ = 0;
  std::size_t passed_ = 0;
  bool submission_ended_ = false;
  bool answer_failed_ = false;
  bool device_ended_ = false;

  std::size_t taken_ = 0;  ///< bytes, from the start of the row
  std::size_t pieces_in_hand_ = 0;
  std::vector<std::size_t> moved_;  ///< bytes of the chunk that is in each slot
  std::size_t chunks_moved_ = 0;    ///< all before it are; what the gate says

  std::atomic<std::size_t> bytes_done_ = 0;
  std::atomic<bool> has_failure_ = false;  ///< a thread writes it, or has
  std::exception_ptr failure_;
  std::atomic<bool> given_up_ = false;  ///< it is written
};

}  // namespace berth
