// SPDX-License-Identifier: Apache-2.0
// What a Transfer knows of a copy through staging memory.
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
  /// Whose the memory on the host's side is.
  enum class HostSide : bool {
    lent,  ///< the caller's, who may take it back once it has let go of the transfer
    kept,  ///< something that stays until the transfer is over
  };

  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, HostSide host_side)
      : TransferState(copy->bytes()),
        work_(work),
        copy_(std::move(copy)),
        bytes_before_(0),
        is_lent_(host_side == HostSide::lent) {}
  /// Of whose row `bytes` behind the first `bytes_before` count. The host's side is kept.
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
  /// Where the host's side is lent, it can go back after that.
  void finish_host_side() noexcept;

  HostWork& work_;
  const HostWork::CopyPtr copy_;
  const std::size_t bytes_before_;
  std::atomic<bool> is_lent_;
};

}  // namespace berth
