// SPDX-License-Identifier: Apache-2.0
// The state of a Transfer whose copy uses staging memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <utility>

#include "copy/staged/host_work.hpp"
#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// Threads  Safe from any thread.
class StagedTransfer final : public TransferState {
 public:
  /// The owner of the host memory.
  enum class HostMemory : bool {
    borrowed,  ///< the caller, which may free it once the last Transfer is destroyed
    owned,     ///< an object that exists until the transfer is over
  };

  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, HostMemory host_memory)
      : TransferState(copy->bytes()),
        work_(work),
        copy_(std::move(copy)),
        bytes_before_(0),
        is_borrowed_(host_memory == HostMemory::borrowed) {}
  /// For a file: counts `bytes` of the row behind the first `bytes_before`. The host side is owned.
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, std::size_t bytes_before,
                 std::size_t bytes)
      : TransferState(bytes),
        work_(work),
        copy_(std::move(copy)),
        bytes_before_(bytes_before),
        is_borrowed_(false) {}

  bool is_done() override;
  void wait() override { work_.complete(copy_); }
  [[nodiscard]] std::exception_ptr failure() const override;
  std::size_t bytes_done() override;
  void cancel() noexcept override;
  void abandon() noexcept override;
  void detach() noexcept override { is_borrowed_ = false; }
  void suppress_failure_report() noexcept override { copy_->suppress_failure_report(); }

 private:
  /// If the host memory is borrowed, returns when the caller may free it.
  void finish_host_side() noexcept;

  HostWork& work_;
  const HostWork::CopyPtr copy_;
  const std::size_t bytes_before_;
  std::atomic<bool> is_borrowed_;
};

}  // namespace berth
