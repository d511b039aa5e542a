// SPDX-License-Identifier: Apache-2.0
// What a Transfer knows of a copy through staging memory.
#pragma once

#include <cstddef>
#include <exception>
#include <utility>

#include "copy/staged/host_work.hpp"
#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// Threads  Safe from any thread.
class StagedTransfer final : public TransferState {
 public:
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy)
      : StagedTransfer(work, copy, 0, copy->bytes()) {}
  /// Of whose row `bytes` behind the first `bytes_before` count.
  StagedTransfer(HostWork& work, HostWork::CopyPtr copy, std::size_t bytes_before,
                 std::size_t bytes)
      : TransferState(bytes), work_(work), copy_(std::move(copy)), bytes_before_(bytes_before) {}

  bool is_done() override;
  void wait() override { work_.complete(copy_); }
  [[nodiscard]] std::exception_ptr failure() const override { return copy_->failure(); }
  std::size_t bytes_done() override;
  void cancel() noexcept override;

 private:
  HostWork& work_;
  const HostWork::CopyPtr copy_;
  const std::size_t bytes_before_;
};

}  // namespace berth
