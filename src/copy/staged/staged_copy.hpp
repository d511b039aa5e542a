// SPDX-License-Identifier: Apache-2.0
// One copy between a device and memory or a file that only the host can access, through staging
// memory.
//
// The bytes are split into chunks, which use the slots of the staging memory as a ring. The device
// work is submitted to the caller's stream at once, and each step that depends on the host is
// behind a gate: a wait of the stream for a word of pinned memory, which counts the chunks that the
// host has completed. Behind each chunk the device writes another word, which counts the steps that
// it has completed.
//
//   to the device  stream: [gate: chunk c is filled] copy slot -> target [word: c + 1]
//                  host:   fills chunk c when the chunk before it in its slot has passed
//   to the host    stream: [gate: slot is empty] copy source -> slot [word: c + 1] ... [gate: all]
//                  host:   empties the slot of chunk c when the word reaches c + 1
//
// The threads that fill slots and open gates read the word, and never call the driver: a driver
// call may block behind a thread that waits, in the driver, for that gate. Some chunks, and the
// end, are followed by an event: a mark. Threads that block for progress of the device wait for
// marks, and only for marks that the device reaches without the host. A query of a mark also
// detects a failed device, which a word cannot. If a copy cannot be submitted completely, a word
// and a mark follow the submitted part: the gates of later copies may depend on its end.
//
// A copy that shares its slots with earlier copies uses them when those are complete. A gate in
// front of its device work opens then.
//
// So the caller does not wait, and the stream never waits for another stream, which might wait for
// it. Streams wait only for threads that copy memory, and these threads wait for nothing.
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

#include "copy/operand/copy_sides.hpp"
#include "copy/staged/progress_word.hpp"
#include "copy/staged/ready_copies.hpp"
#include "copy/staged/staging_memory.hpp"

namespace berth {

struct CopyLane;

/// The two sides of a staged copy, and its options.
struct StagedRoute {
  using Direction = CopyDirection;

  Direction direction;
  std::unique_ptr<HostSide> host;
  std::unique_ptr<DeviceSide> device;
  std::size_t bytes;  ///< 1 or more
  /// The source need not be valid after the call: StagedCopies::complete_host_side() follows.
  bool is_read_at_once = false;
  /// The host end is a file: the pieces are moved by threads that may wait for a disk.
  bool waits_for_disk = false;
  /// Kept until the copy is complete.
  std::shared_ptr<const void> keep_alive = nullptr;
};

/// Threads  The thread that created the copy submits it. HostWork calls the rest under its lock,
///          except move(), fail() and functions that state otherwise.
class StagedCopy {
 public:
  using Direction = StagedRoute::Direction;

  /// A part of a chunk that one thread moves.
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };

  /// An event in the stream, behind the first `steps` steps. kEnd: behind the submitted part of a
  /// copy that could not be submitted completely.
  struct Mark {
    /// Shared with threads that query it or wait for it, so that it is not returned meanwhile.
    std::shared_ptr<const EventLease> event;
    std::size_t steps;
  };
  static constexpr std::size_t kEnd = ProgressWord::kEnd;

  /// The most entries that one copy has in a stream's queue, unless a single chunk has more: the
  /// driver accepts about 1,024, and then blocks the caller. Enough for a gigabyte in slots of
  /// 4 MiB.
  static constexpr std::size_t kEntriesMax = 896;

  StagedCopy(StreamRef stream, StagedRoute route, Staging staging);

  // Its submission, to a stream that is not captured.
  /// Submits the gate of the first chunk alone, before submit_until(). begins_with_gate() is true.
  /// Errors  DriverError: call close().
  void submit_first_gate();
  /// Submits the device work and the gates of the first `chunks` chunks; of all chunks if there are
  /// fewer.
  /// Errors  DriverError, OutOfMemory: call close().
  void submit_until(std::size_t chunks, EventPool& events);
  [[nodiscard]] bool is_all_submitted() const { return is_all_submitted_; }
  /// submit_until() has failed: submits a word and a mark behind the submitted part.
  /// Errors  Likewise: the end of that part may not be reported.
  void close(EventPool& events);
  /// Chunks that may have been submitted by now, with at most kEntriesMax entries in the queue.
  [[nodiscard]] std::size_t chunks_with_room() const {
    return device_ended_ ? kEnd : passed_ + chunks_ahead_;
  }
  /// Nothing more will be submitted.
  void end_submission();

  // The trial of its first gate (gate_trial.hpp).
  /// Whether the first entry is a gate that opens when the host has filled the first chunk.
  [[nodiscard]] bool begins_with_gate() const {
    return direction_ == Direction::to_device && turns_ == 0;
  }
  /// No piece is moved until admit(). Called before the copy is pending.
  void withhold() { is_withheld_ = true; }
  void admit() { is_withheld_ = false; }
  [[nodiscard]] bool is_first_gate_open() const { return gates_open_ > 0; }

  // The turns of copies that share slots.
  /// Whether this copy currently uses the slots.
  [[nodiscard]] bool has_turn() const { return has_turn_; }
  /// Called when no other copy uses the slots.
  void begin_turn();
  /// The copy no longer uses the slots, which is reported to the simulated driver.
  void end_turn();

  // The host work.
  /// Whether there is currently a piece to move.
  [[nodiscard]] bool has_piece() const;
  /// has_piece() is true.
  Piece take();
  /// Moves the piece, unless the copy has failed. An exception fails the copy.
  void move(const Piece& piece) noexcept;
  /// The piece has been moved: opens the gates that waited for it.
  void finish(const Piece& piece);
  [[nodiscard]] std::size_t pieces_in_progress() const { return pieces_in_progress_; }
  [[nodiscard]] bool is_all_taken() const { return taken_ == bytes_; }

  // The device work, as observed by the host.
  /// Reads the progress word, without a driver call. Returns whether the device has advanced.
  bool poll_progress();
  /// The next mark that the device is not known to have passed. nullopt if it is not submitted yet,
  /// the device executes no more steps, or it is not the copy's turn.
  [[nodiscard]] std::optional<Mark> next_mark() const;
  /// The same, but only if no closed gate precedes the mark: a thread that waits for it waits for
  /// the device alone.
  [[nodiscard]] std::optional<Mark> next_sure_mark() const;
  /// The driver has reported that the mark has completed.
  void pass(const Mark& mark);
  /// The device executes no more steps: it has failed, or the submitted part has completed.
  void end_device() { device_ended_ = true; }

  /// No thread will take a piece again, and the device is done. Threads may still be moving pieces.
  [[nodiscard]] bool is_at_end() const {
    if (!submission_ended_ || !has_turn_) return false;
    // Behind the last step of a copy that could not be submitted completely, the word is written
    // once more.
    return device_ended_ || (is_all_submitted_ && passed_ == steps() && is_all_taken());
  }

  /// Fails the copy: no byte is moved from now on. The first failure is kept. Called while the
  /// caller holds a piece, or under the lock before the copy is complete.
  void fail(std::exception_ptr failure) noexcept;
  /// If the copy has failed, opens all gates. Not before its turn, and not while a thread holds a
  /// piece, because the stream must not complete the copy while that thread writes the target.
  void open_gates_if_failed() noexcept;
  /// Null if there is none.
  [[nodiscard]] std::exception_ptr failure() const;
  [[nodiscard]] bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }

  /// The program will learn of a failure, so it is not reported to the sink.
  void suppress_failure_report() noexcept { note(kReportSuppressed); }
  /// The program cannot query the failure any more. A failure that it has not observed is reported
  /// when the copy is complete.
  void abandon() noexcept { note(kAbandoned); }

  /// Returns the resources of a complete copy, except the owner.
  void release();
  /// Whether the program's owner of the memory (TransferOptions::keep_alive) is still kept.
  [[nodiscard]] bool has_owner() const { return keep_alive_ != nullptr; }
  /// Runs the owner's destructor, which may call the driver.
  void release_owner();
  /// Called after release() and release_owner(): the copy cannot fail any more.
  void mark_complete() noexcept { note(kComplete); }

  /// Reports to the simulated driver that the calling thread has observed the device's progress.
  void report_observed_progress() const;

  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] const Staging& staging() const { return staging_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Bytes that have arrived. Threads  any.
  [[nodiscard]] std::size_t bytes_done() const {
    return bytes_done_.load(std::memory_order_relaxed);
  }

  // Used by HostWork.
  std::shared_ptr<CopyLane> lane;              ///< null once it is complete
  ReadyCopies::Place place;                    ///< while it is pending
  std::weak_ptr<StagedCopy> successor;         ///< the copy that uses the slots next
  std::shared_ptr<StagedCopy> next_completed;  ///< in a list of complete copies
  /// Whether the device and the host have nothing left to do. Threads any.
  std::atomic<bool> has_ended = false;
  /// Whether its resources have been returned, too. Threads any.
  std::atomic<bool> is_complete = false;

 private:
  [[nodiscard]] std::size_t chunks() const { return (bytes_ + slot_bytes_ - 1) / slot_bytes_; }
  [[nodiscard]] std::size_t steps() const {
    return chunks() + (direction_ == Direction::to_host ? 1 : 0);
  }
  [[nodiscard]] std::size_t chunk_bytes(std::size_t chunk) const;
  /// Chunks that need up to so many entries of the stream's queue; 1 or more.
  [[nodiscard]] std::size_t chunks_within(std::size_t entries) const;
  /// The host may move the chunks before this one.
  [[nodiscard]] std::size_t open_chunks() const;
  /// Chunks that the host must have completed before the device can complete `steps`.
  [[nodiscard]] std::size_t chunks_before(std::size_t steps) const;
  void submit_chunk(std::size_t chunk);
  void submit_gate(std::size_t chunks_done);
  void submit_step(std::size_t steps, EventPool& events);
  void mark(std::size_t steps, EventPool& events);
  void pass_until(std::size_t steps);
  /// The device has passed `steps`, more than known, or kEnd.
  void reach(std::size_t steps);
  void note(unsigned fact) noexcept;
  void report_failure() const noexcept;
  void open_gates(std::size_t chunks_done);

  const StreamRef stream_;
  const Direction direction_;
  std::unique_ptr<HostSide> host_;
  const std::unique_ptr<DeviceSide> device_;
  const std::size_t bytes_;
  std::shared_ptr<const void> keep_alive_;
  const std::size_t slot_bytes_;
  Staging staging_;
  const std::size_t turns_;  ///< 1 if its gate counts its turn before the chunks, otherwise 0
  const std::size_t chunks_a_mark_;  ///< half a round of the slots, so that host and device overlap
  const std::size_t chunks_ahead_;   ///< the most that are submitted and have not completed
  bool has_turn_ = false;
  bool is_withheld_ = false;

  const ProgressWord progress_;
  bool is_first_gate_submitted_ = false;  ///< alone, before its chunk
  std::size_t next_chunk_ = 0;            ///< to submit
  bool is_all_submitted_ = false;
  std::atomic<std::size_t> steps_submitted_ = 0;  ///< or about to be
  std::vector<Mark> marks_;                       ///< never reallocated; marked_ may be read
  std::atomic<std::size_t> marked_ = 0;
  std::size_t next_mark_ = 0;  ///< of marks_: earlier marks have completed
  std::size_t passed_ = 0;     ///< steps
  bool submission_ended_ = false;
  bool device_ended_ = false;

  std::size_t taken_ = 0;  ///< bytes, from the start
  std::size_t pieces_in_progress_ = 0;
  std::vector<std::size_t> moved_;  ///< bytes of the chunk in each slot
  std::size_t chunks_moved_ = 0;    ///< completely, from the first one on
  std::size_t gates_open_ = 0;      ///< chunks counted by the gate, once it is the copy's turn

  std::atomic<std::size_t> bytes_done_ = 0;
  std::atomic<bool> failure_claimed_ = false;  ///< a thread writes failure_, or has written it
  std::exception_ptr failure_;
  std::atomic<bool> has_failed_ = false;  ///< failure_ can be read

  // Whether a failure has to be reported.
  static constexpr unsigned kReportSuppressed = 1;
  static constexpr unsigned kAbandoned = 2;
  static constexpr unsigned kComplete = 4;
  std::atomic<unsigned> facts_ = 0;
};

}  // namespace berth
