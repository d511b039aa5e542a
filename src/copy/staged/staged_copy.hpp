// SPDX-License-Identifier: Apache-2.0
// One copy between a device and what only the host can reach, through staging memory.
//
// The row of bytes is cut into chunks, which use the slots of the staging memory round and round.
// What the device does is submitted to the caller's stream at once, and each step that depends on
// the host stands behind a gate: a wait of the stream for a word of pinned memory, which counts the
// chunks that the host is done with. Behind each chunk the device writes another word, which counts
// the steps that it has passed.
//
//   to the device  stream: [gate: chunk c is filled] copy slot -> target [word: c + 1]
//                  host:   fills chunk c once the chunk that had its slot has passed
//   to the host    stream: [gate: slot is empty] copy source -> slot [word: c + 1] ... [gate: all]
//                  host:   empties the slot of chunk c once the word says so
//
// Whoever fills slots and opens gates reads the word, and never calls the driver: a driver call may
// block behind a thread that waits, in the driver, for that gate. Behind some chunks, and at the
// end, there is an event: a mark. Threads that block until the device has come so far wait for
// marks, and only for those that the device reaches without the host; and the driver's answer about
// a mark tells that the device has failed, which a word does not.
//
// A copy that shares its slots with earlier copies uses them when those are complete. Its work on
// the device stands behind a gate that opens then.
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

#include "copy/operand/copy_ends.hpp"
#include "copy/staged/progress_word.hpp"
#include "copy/staged/ready_copies.hpp"
#include "copy/staged/staging_memory.hpp"

namespace berth {

struct CopyLane;

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

/// Threads  The thread that made it submits it. HostWork calls the rest under its lock, except
///          move(), give_up() and what says so.
class StagedCopy {
 public:
  using Direction = StagedRoute::Direction;

  /// A stretch of one chunk, for one thread to move.
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };

  /// An event in the stream, behind the first `steps` steps. kEnd: behind all that was submitted of
  /// a copy that could not be submitted as a whole.
  struct Mark {
    /// Shared with threads that query it or wait for it, so that it is not returned meanwhile.
    std::shared_ptr<const EventLease> event;
    std::size_t steps;
  };
  static constexpr std::size_t kEnd = ~std::size_t{0};

  /// Entries in a stream's queue that one copy has at most: the driver takes about 1,024, and then
  /// blocks the caller. Enough for a gigabyte in slots of 4 MiB.
  static constexpr std::size_t kEntriesMax = 896;

  StagedCopy(StreamRef stream, StagedRoute route, Staging staging);

  // Its submission, to a stream that is not captured.
  /// What the device does until it has passed `chunks` chunks, or more than all of them, and the
  /// gates.
  /// Errors  DriverError, OutOfMemory: close().
  void submit_until(std::size_t chunks, EventPool& events);
  [[nodiscard]] bool is_all_submitted() const { return is_all_submitted_; }
  /// submit_until() has failed: marks the end of what was submitted.
  /// Errors  Likewise: nothing tells of that end.
  void close(EventPool& events);
  /// The chunk that may be submitted by now, with no more than kEntriesMax entries in the queue.
  [[nodiscard]] std::size_t chunks_with_room() const {
    return device_ended_ ? kEnd : passed_ + chunks_ahead_;
  }
  /// Nothing is submitted any more.
  void end_submission();

  // The turns of copies that share slots.
  /// Whether the slots are its own by now.
  [[nodiscard]] bool has_turn() const { return has_turn_; }
  /// No copy uses the slots.
  void begin_turn();
  /// It needs them no more.
  void end_turn();

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
  /// Looks how far the device is; whether it has gone on. No driver call.
  bool look();
  /// The next mark that the device has not passed, as far as is known; nullopt where that is not
  /// submitted yet, the device takes no more steps, or it is not the copy's turn.
  [[nodiscard]] std::optional<Mark> next_mark() const;
  /// The same where no gate before it waits for the host: a thread that blocks for it waits for the
  /// device alone.
  [[nodiscard]] std::optional<Mark> next_sure_mark() const;
  /// The driver says so.
  void pass(const Mark& mark);
  /// The device takes no more steps: it has failed, or what was submitted has passed.
  void end_device() { device_ended_ = true; }

  /// Nobody will touch anything of it again, if nobody does now.
  [[nodiscard]] bool is_at_end() const {
    return submission_ended_ && has_turn_ &&
           (device_ended_ || (passed_ == steps() && is_all_taken()));
  }

  /// The copy has failed: no byte is moved from now on. The first failure counts. Only while a
  /// piece is in hand, or under the lock: not once it may be over.
  void give_up(std::exception_ptr failure) noexcept;
  /// Where it has been given up, the device waits for nothing any more. Not before its turn, nor
  /// while a thread still has a piece in hand: the stream is not to pass the copy before that one
  /// has left the target alone.
  void open_gates_if_given_up() noexcept;
  /// What went wrong; null where nothing has.
  [[nodiscard]] std::exception_ptr failure() const;
  [[nodiscard]] bool is_given_up() const { return given_up_.load(std::memory_order_acquire); }

  /// Somebody hears of its failure: nobody has to be looked for to tell it to.
  void be_told() noexcept { note(kTold); }
  /// Nobody can ask for its failure any more. One that nobody was told of is reported, once the
  /// copy is over.
  void be_forgotten() noexcept { note(kForgotten); }

  /// It is over: what it held goes back.
  void release();
  /// After release(): nothing will go wrong with it any more.
  void note_end() noexcept { note(kOver); }

  /// The calling thread learns from the copy how far the device is, which the simulated driver has
  /// to be told.
  void tell_caller() const;

  [[nodiscard]] StreamRef stream() const { return stream_; }
  [[nodiscard]] const Staging& staging() const { return staging_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Bytes that have arrived. Threads  any.
  [[nodiscard]] std::size_t bytes_done() const {
    return bytes_done_.load(std::memory_order_relaxed);
  }

  // Of HostWork.
  std::shared_ptr<CopyLane> lane;         ///< null once it is over
  ReadyCopies::Place place;               ///< while it is under way
  std::weak_ptr<StagedCopy> successor;    ///< the copy that uses the slots next
  std::shared_ptr<StagedCopy> next_over;  ///< in a list of those that are over
  /// What it held has been given back. Threads  any.
  std::atomic<bool> is_over = false;

 private:
  [[nodiscard]] std::size_t chunks() const { return (bytes_ + slot_bytes_ - 1) / slot_bytes_; }
  [[nodiscard]] std::size_t steps() const {
    return chunks() + (direction_ == Direction::to_host ? 1 : 0);
  }
  [[nodiscard]] std::size_t chunk_bytes(std::size_t chunk) const;
  /// The chunk before which the host may move all.
  [[nodiscard]] std::size_t open_chunks() const;
  /// Chunks that the host has to be done with before the device can have passed `steps`.
  [[nodiscard]] std::size_t chunks_before(std::size_t steps) const;
  void submit_chunk(std::size_t chunk);
  void submit_gate(std::size_t chunks_done);
  void submit_step(std::size_t steps, EventPool& events);
  void mark(std::size_t steps, EventPool& events);
  void pass_until(std::size_t steps);
  void note(unsigned fact) noexcept;
  void report_failure() const noexcept;
  void open_gates(std::size_t chunks_done);

  const StreamRef stream_;
  const Direction direction_;
  std::unique_ptr<HostEnd> host_;
  const std::unique_ptr<DeviceEnd> device_;
  const std::size_t bytes_;
  std::shared_ptr<const void> keep_alive_;
  const std::size_t slot_bytes_;
  Staging staging_;
  const std::size_t turns_;  ///< what its gate counts before its chunks: its turn, or nothing
  const std::size_t chunks_a_mark_;  ///< half a round of the slots, so that host and device overlap
  const std::size_t chunks_ahead_;   ///< of those that are submitted, that have not passed
  bool has_turn_ = false;

  const ProgressWord progress_;
  std::size_t next_chunk_ = 0;  ///< to submit
  bool is_all_submitted_ = false;
  std::atomic<std::size_t> steps_submitted_ = 0;  ///< or about to be
  std::vector<Mark> marks_;                       ///< has room for all; marked_ of them may be read
  std::atomic<std::size_t> marked_ = 0;
  std::size_t next_mark_ = 0;  ///< of marks_: those before have passed
  std::size_t passed_ = 0;     ///< steps
  bool submission_ended_ = false;
  bool device_ended_ = false;

  std::size_t taken_ = 0;  ///< bytes, from the start of the row
  std::size_t pieces_in_hand_ = 0;
  std::vector<std::size_t> moved_;  ///< bytes of the chunk that is in each slot
  std::size_t chunks_moved_ = 0;    ///< all before it are
  std::size_t gates_open_ = 0;      ///< chunks; what the gate says, once it is the copy's turn

  std::atomic<std::size_t> bytes_done_ = 0;
  std::atomic<bool> has_failure_ = false;  ///< a thread writes it, or has
  std::exception_ptr failure_;
  std::atomic<bool> given_up_ = false;  ///< it is written

  // Who hears of a failure.
  static constexpr unsigned kTold = 1;
  static constexpr unsigned kForgotten = 2;
  static constexpr unsigned kOver = 4;
  std::atomic<unsigned> facts_ = 0;
};

}  // namespace berth
