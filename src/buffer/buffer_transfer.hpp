// SPDX-License-Identifier: Apache-2.0
// A copy between host memory and a buffer of a backend. It is over when each of its operations has
// ended.
//
// A backend may report an end on a thread of its own and under a lock of its own. So a thread of
// berth calls on_done and releases keep_alive. The only code of the program that is called there is
// the report sink, which must neither call berth nor wait: it gets the failure of a transfer that
// has neither of them, and to which no Transfer refers any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"
#include "berth/transfer.hpp"

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "buffer/part.hpp"
#include "buffer/task_thread.hpp"
#include "copy/transfer/transfer_state.hpp"

namespace berth {

class BufferSet;

/// What a transfer does, for reports: "filling a buffer of" and a device.
struct TransferName {
  const char* what;
  Device device;

  [[nodiscard]] std::string text() const { return std::string(what) + " " + device.to_string(); }
};

/// Threads  Safe from any thread.
class BufferTransfer final : public TransferState,
                             public Task,
                             public std::enable_shared_from_this<BufferTransfer> {
 public:
  /// One operation is pending initially: the starter itself, until finish(). Nothing waits for it
  /// before own().
  BufferTransfer(std::shared_ptr<BufferSet> set, TransferName name, std::size_t bytes,
                 TransferOptions options);
  ~BufferTransfer() override;

  /// There is a Transfer: its end waits for the operations, unless keep_alive holds their memory.
  void own() noexcept BERTH_EXCLUDES(mutex_);
  /// Begins one more operation, whose end means that `bytes` more have arrived. A second call of
  /// `Done` has no effect; if it is destroyed without a call, the operation has failed. `part` is
  /// busy until then, if it is not null.
  DeviceBackend::Done add_operation(std::size_t bytes, std::shared_ptr<Part> part = nullptr)
      BERTH_EXCLUDES(mutex_);
  /// One more thread begins operations, until it calls finish(). It may be waiting on its
  /// TaskThread for a change of is_stopped().
  void begin_task() noexcept BERTH_EXCLUDES(mutex_);
  /// The starter, or a task, has begun all operations; `failure`: it could not.
  void finish(std::exception_ptr failure = nullptr) noexcept { end_operation(0, failure); }
  /// The call that starts the transfer throws: nothing is reported and on_done is not called.
  /// Waits for the operations that have begun.
  void withdraw() noexcept BERTH_EXCLUDES(mutex_);
  /// It was cancelled, or has failed.
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  /// False: it has failed.
  /// Errors  Cancelled.
  [[nodiscard]] bool goes_on() const BERTH_EXCLUDES(mutex_);
  /// More bytes have arrived than operations say.
  void add_bytes_done(std::size_t bytes) noexcept BERTH_EXCLUDES(mutex_);

  bool is_done() override BERTH_EXCLUDES(mutex_);
  void wait() override BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::exception_ptr failure() const override BERTH_EXCLUDES(mutex_);
  std::size_t bytes_done() override BERTH_EXCLUDES(mutex_);
  /// Has an effect only before the last part has begun.
  void cancel() noexcept override BERTH_EXCLUDES(mutex_);
  void abandon() noexcept override BERTH_EXCLUDES(mutex_);
  void detach() noexcept override BERTH_EXCLUDES(mutex_);

 private:
  class Operation;

  void note_failure(std::exception_ptr failure) noexcept BERTH_EXCLUDES(mutex_);
  void end_operation(std::size_t bytes, std::exception_ptr failure,
                     std::shared_ptr<Part> part = nullptr) noexcept BERTH_EXCLUDES(mutex_);
  void run() noexcept override;
  void report_unless_told() noexcept BERTH_EXCLUDES(mutex_);

  const std::shared_ptr<BufferSet> set_;
  const TransferName name_;
  TransferOptions options_;  ///< of the thread that runs the task, once this is over
  const bool has_notice_;
  mutable Mutex mutex_;
  ConditionVariable over_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_over_ = false;  ///< no operation is pending; set under the lock
  std::size_t operations_ BERTH_GUARDED_BY(mutex_) = 1;
  std::size_t bytes_done_ BERTH_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ BERTH_GUARDED_BY(mutex_);  ///< the first one
  bool has_part_tasks_ BERTH_GUARDED_BY(mutex_) = false;
  bool is_cancelled_ BERTH_GUARDED_BY(mutex_) = false;
  bool waits_at_end_ BERTH_GUARDED_BY(mutex_) = false;  ///< abandon() waits
  bool is_withdrawn_ BERTH_GUARDED_BY(mutex_) = false;
  bool is_abandoned_ BERTH_GUARDED_BY(mutex_) = false;
  mutable bool is_told_ BERTH_GUARDED_BY(mutex_) = false;  ///< the program has the failure
};

}  // namespace berth
