// SPDX-License-Identifier: Apache-2.0
// A pending copy: its end, its progress, and its failure.
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

/// Options of the calls that start a transfer.
struct TransferOptions {
  /// The owner of source and target, kept until the transfer is over. Null: the caller keeps them
  /// valid, and the destructor of Transfer waits while threads access them. It is released on a
  /// thread that starts or awaits the transfer, or on a thread of berth's. Its destructor may call
  /// CUDA and berth, but must not wait for work of the device, and delays the release of others if
  /// it blocks.
  std::shared_ptr<const void> keep_alive = nullptr;
  /// The order of the host work of copies; lower numbers go first. nullopt: the stream's priority.
  std::optional<int> priority = std::nullopt;
  /// Called when the transfer is over, with its failure or null, under the rules of
  /// CompletionQueue::when_done(): on berth's thread, and it may call CUDA and berth. Empty: no
  /// call.
  std::function<void(std::exception_ptr failure)> on_done = nullptr;
};

/// Returned by Copier::start() and Collectives. Copies of the object refer to the same transfer. An
/// empty one is done, with 0 bytes. Must not outlive its Runtime.
///
/// Lifetime  The destructor of the last copy waits until no thread of berth's will access pageable
///           memory of the transfer again, unless TransferOptions::keep_alive holds that memory. So
///           a source or a target that is declared before its Transfer stays valid long enough,
///           even if an exception leaves the scope. The destructor does not wait for the use of
///           device and pinned memory, which follows the rules of streams. After detach() it does
///           not wait at all.
/// Failures  wait() throws the failure, failure() returns it, and on_done receives it. If none of
///           them has done so when the transfer is over and its last copy is destroyed, the failure
///           of a copy through staging memory (a file that cannot be read, a driver call that
///           fails) is reported once to the report sink, with the device, the stream and the sizes,
///           because events and streams do not report it.
/// Threads   Safe from any thread, as long as no thread assigns to the same object. Inside a CUDA
///           host callback, call only bytes(), cancel() and detach(): the other functions may call
///           the driver, or wait for work behind the callback.
/// Fork      In a child made by fork(), queries and waits fail with NotSupported, and all other
///           functions do nothing.
class BERTH_API Transfer {
 public:
  Transfer() = default;
  /// For Copier.
  explicit Transfer(const std::shared_ptr<TransferState>& state);

  /// Whether the transfer is over: the target has the bytes, or the copy has failed. Never waits.
  /// Queries the driver if a device copies alone; makes no driver call for pageable memory.
  [[nodiscard]] bool is_done() const;
  /// Returns when the transfer is over. The calling thread takes part in a copy through staging
  /// memory.
  /// Errors  The failure: DriverError, Cancelled, or FileError.
  void wait() const;
  /// The failure, as far as it is known; null if there is none, or the transfer is pending.
  [[nodiscard]] std::exception_ptr failure() const noexcept;

  /// The size of the transfer.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Bytes that are known to have arrived: in steps of some MiB, and slightly late. Makes one
  /// driver call for each such step of a copy without staging memory, and none otherwise.
  [[nodiscard]] std::size_t bytes_done() const;
  /// bytes_done() divided by the time since the start, or by the duration of the transfer.
  [[nodiscard]] double bytes_per_second() const;

  /// Ends a copy through staging memory early: the rest is not copied, and wait() throws Cancelled.
  /// The content of the target is undefined. The stream passes the copy when no thread writes the
  /// target any more. A copy without staging memory, which the device makes alone, continues. Never
  /// waits.
  void cancel() noexcept;

  /// Detaches the transfer: no destructor waits for it. Source and target must stay valid, as for
  /// start(), until it is over; on_done, or an event that is recorded on the stream later, reports
  /// that.
  void detach() noexcept;

 private:
  friend class CompositeTransfer;

  std::shared_ptr<TransferState> state_;
};

}  // namespace berth
