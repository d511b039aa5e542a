// SPDX-License-Identifier: Apache-2.0
// A pending copy: its end, its progress, and its failure.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "berth/cpp20.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

class TransferState;

/// Options of the calls that start a transfer.
struct TransferOptions {
  /// One owner that keeps BOTH the source and the target valid, kept until the transfer is over;
  /// keep_all() makes one of several. No destructor waits for either side then, so the owner of one
  /// side alone leaves the other one unprotected. Null: the caller keeps both sides valid, and the
  /// destructor of Transfer waits while threads access them. It is released on a thread that starts
  /// or awaits the transfer, or on a berth thread. Its destructor may call CUDA and berth, but must
  /// not wait for work of the device, and delays the release of other objects if it blocks.
  std::shared_ptr<const void> keep_alive = nullptr;
  /// The order of the host work of copies; lower numbers go first. nullopt: the stream's priority.
  std::optional<int> priority = std::nullopt;
  /// Called when the transfer is over, with its failure or null, under the rules of
  /// CompletionQueue::when_done(): on berth's thread, and it may call CUDA and berth. Empty: no
  /// call.
  std::function<void(std::exception_ptr failure)> on_done = nullptr;
  /// Of copies between host memory and buffers of backends (DeviceBuffers); no effect on others. 0:
  /// the backend makes the copy by one call. Otherwise a berth thread makes it in parts of this
  /// size, two at a time, so that bytes_done() grows with each part and cancel() ends the copy
  /// between two parts. 64 KiB or more, a multiple of 4 KiB; no maximum. A copy that is not larger
  /// than one part is made by one call.
  std::size_t part_bytes = 0;
};

/// One owner of all `owners`, for TransferOptions::keep_alive: shared pointers, tensors, or other
/// objects that keep memory valid. Pass the owners of the source and of the target: `{.keep_alive =
/// keep_all(target, source)}`.
/// Errors  InvalidArgument: one of them is null, so that it keeps nothing.
template <class... Owners>
[[nodiscard]] std::shared_ptr<const void> keep_all(Owners... owners) {
  static_assert(sizeof...(Owners) > 0, "keep_all() needs owners");
  static_assert((!std::is_pointer_v<Owners> && ...), "a pointer owns nothing");
  const auto require = [](const auto& owner) {
    if constexpr (requires { static_cast<bool>(owner == nullptr); }) {
      if (owner == nullptr) {
        throw InvalidArgument(
            "keep_all(): an owner is null, and keeps nothing; accepted: owners of source and "
            "target");
      }
    }
  };
  (require(owners), ...);
  return std::make_shared<const std::tuple<Owners...>>(std::move(owners)...);
}

/// Returned by Copier::start() and Collectives. Copies of the object refer to the same transfer. An
/// empty one is done, with 0 bytes. Must not outlive its Runtime, whose end reports the events that
/// live transfers of direct copies hold; others hold none.
///
/// Lifetime  The destructor of the last copy waits until no berth thread will access pageable
///           memory of the transfer again, unless there is TransferOptions::keep_alive. So a source
///           or a target that is declared before its Transfer stays valid long enough, even if an
///           exception leaves the scope. The destructor does not wait for the use of device and
///           pinned memory, which follows the rules of streams. After detach() it does not wait at
///           all.
/// Failures  wait() throws the failure, failure() returns it, and on_done receives it. If none of
///           them has done so when the transfer is over and its last copy is destroyed, the failure
///           of a copy through staging memory (a file that cannot be read, a driver call that
///           fails) is reported once to the report sink, with the device, the stream and the sizes,
///           because events and streams do not report it.
/// Threads   Safe from any thread, as long as no thread assigns to the same object. Inside a CUDA
///           host callback, call only bytes(), cancel() and detach(): the other functions may call
///           the driver, or wait for work that is queued after the callback.
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
  /// memory. It watches a transfer of a buffer for up to 200 us, which is processor time, before it
  /// sleeps.
  /// Errors  The failure: DriverError, Cancelled, FileError. Of a transfer of a buffer also
  ///         std::bad_alloc (no memory for a copy in parts or of a file), and the failure that the
  ///         backend has reported: BackendError, OutOfMemory, NotSupported, InvalidArgument, or an
  ///         exception of another type from a backend of the program.
  void wait() const;
  /// The failure, as far as it is known; null if there is none, or the transfer is pending.
  [[nodiscard]] std::exception_ptr failure() const noexcept;

  /// The size of the transfer in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Bytes that are known to have arrived: in steps of some MiB, or of
  /// TransferOptions::part_bytes, and slightly late. Makes one driver call for each such step of a
  /// direct copy of a Copier, and none otherwise.
  [[nodiscard]] std::size_t bytes_done() const;
  /// bytes_done() divided by the time since the start, or by the duration of the transfer.
  [[nodiscard]] double bytes_per_second() const;

  /// Ends a copy through staging memory, or in parts, early: the rest is not copied, and wait()
  /// throws Cancelled. The content of the target is undefined. The stream passes the copy when no
  /// thread writes the target any more. A copy that the device or the backend makes in one piece
  /// continues. Never waits.
  void cancel() const noexcept;

  /// Detaches the transfer: no destructor waits for it. Source and target must stay valid, as for
  /// start(), until it is over; on_done, or an event that is recorded on the stream later, reports
  /// that.
  void detach() const noexcept;

 private:
  friend class CompositeTransfer;

  std::shared_ptr<TransferState> state_;
};

}  // namespace berth
