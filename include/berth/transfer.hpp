// SPDX-License-Identifier: Apache-2.0
// An asynchronous copy under way: whether it is done, how far it is, and what became of it.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

class TransferState;

/// Of the calls that start one.
struct TransferOptions {
  /// Kept until the transfer is over: whatever owns source and target. Null: they stay by other
  /// means, and the Transfer's destructor waits for what threads do with them. It is let go on any
  /// thread, perhaps one of berth's that copies: what happens then waits for no work of the device.
  std::shared_ptr<const void> keep_alive = nullptr;
  /// Lower numbers go first if the host has its part to do. nullopt: the stream's own priority.
  std::optional<int> priority = std::nullopt;
  /// Called once the transfer is over, with null or what went wrong, under the rules of
  /// CompletionQueue::when_done(): on berth's thread, and it may call CUDA and berth. Empty:
  /// nothing is.
  std::function<void(std::exception_ptr failure)> on_done = nullptr;
};

/// What Copier::start() and Collectives return. Copies are of the same transfer; an empty one is
/// done and moved nothing. Must not outlive its Runtime.
///
/// Lifetime  The destructor of the last copy waits until no thread of berth's will touch pageable
///           memory of the transfer again, unless TransferOptions::keep_alive holds that memory. So
///           a source or a target that is declared before its Transfer stays valid long enough,
///           also if an exception leaves the scope. The destructor does not wait for the use of
///           device and pinned memory, which follows the rules of streams. After detach() it does
///           not wait at all.
/// Failures  wait() throws what went wrong, failure() returns it, on_done gets it. If none of them
///           has by the time that the transfer is over and its last copy is gone, a failure of a
///           copy through staging memory (a file that cannot be read, a driver call that fails)
///           goes to the report sink, once, with the device, the stream and the sizes: events and
///           streams do not tell of it.
/// Threads   Safe from any thread, as far as one object is not assigned to meanwhile.
/// Fork      In a child made by fork() asking and waiting fail with NotSupported, and all else does
///           nothing.
class BERTH_API Transfer {
 public:
  Transfer() = default;
  /// For Copier.
  explicit Transfer(const std::shared_ptr<TransferState>& state);

  /// Whether it is over: the target has the bytes, or something went wrong. Never waits. Asks the
  /// driver about what a device copies alone, and makes no driver call about pageable memory.
  [[nodiscard]] bool is_done() const;
  /// Returns once it is over. Of a copy through staging memory the calling thread does a part
  /// meanwhile.
  /// Errors  What went wrong: DriverError, Cancelled, of a file FileError.
  void wait() const;
  /// What went wrong, as far as is known; null if nothing has, or the transfer is under way.
  [[nodiscard]] std::exception_ptr failure() const noexcept;

  /// In all.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// That have arrived, by what is known: in steps of some MiB, and a moment late. Costs one driver
  /// call for each such step of a copy without staging memory, and none otherwise.
  [[nodiscard]] std::size_t bytes_done() const;
  /// bytes_done() over the time since the start, or the time that it took.
  [[nodiscard]] double bytes_per_second() const;

  /// Ends a copy through staging memory early: what has not been moved yet stays behind, and wait()
  /// throws Cancelled. The target's content is undefined, and once the stream has passed the copy,
  /// which waits for what a thread is writing then, it is written no more. A copy without staging
  /// memory, which the device does alone, goes on. Never waits.
  void cancel() noexcept;

  /// Lets the transfer go on by itself: no copy's destructor waits. Source and target stay as
  /// start() says until it is over, which on_done tells, or an event that is recorded on the stream
  /// afterwards.
  void detach() noexcept;

 private:
  friend class CompositeTransfer;

  std::shared_ptr<TransferState> state_;
};

}  // namespace berth
