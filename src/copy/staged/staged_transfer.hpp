// SPDX-License-Identifier: Apache-2.0
// The state of a Transfer whose copy passes through staging memory.
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
  /// The owner of the memory on the host's side.
  enum class HostSide : bool {
    lent,  ///< the caller, who may free it once the last Transfer is gone
    kept,  ///< something that exists until the transfer is over
  };

  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, HostSide host_side)
      : TransferState(copy->bytes()),
        work_(work),
        copy_(std::move(copy)),
        bytes_before_(0),
        is_lent_(host_side == HostSide::lent) {}
  /// For a file: `bytes` of the row, behind the first `bytes_before`, count. The host's side is
  /// kept.
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, std::size_t bytes_before,
                 std::size_t bytes)
      : TransferState(bytes),
        work_(work),
        copy_(std::move(copy)),
        bytes_before_(bytes_before),
        is_lent_(false) {}

  bool is_done() override;
  void wait() override { work_.complete(copy_); }
  [[nodiscard]] std::exception_ptr failure() const override;
  std::size_t bytes_done() override;
  void cancel() noexcept override;
  void let_go() noexcept override;
  void detach() noexcept override { is_lent_ = false; }
  void promise_to_tell() noexcept override { copy_->be_told(); }

 private:
  /// If the host's side is lent, returns when the caller may free it.
  void finish_host_side() noexcept;

  HostWork& work_;
  const HostWork::CopyPtr copy_;
  const std::size_t bytes_before_;
  std::atomic<bool> is_lent_;
};

}  // namespace berth
