// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_end.hpp"

#include <memory>
#include <utility>

namespace berth {
namespace {

/// Null counts as complete.
void wait_until_complete(TransferState* transfer) noexcept {
  try {
    if (transfer != nullptr) transfer->wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the caller reports another failure
  }
}

}  // namespace

Transfer end_transfer(CompletionQueue& completions, StreamRef stream,
                      const std::shared_ptr<TransferState>& transfer, TransferOptions options) {
  const bool has_end = options.on_done != nullptr || options.keep_alive != nullptr;
  if (transfer == nullptr && !has_end) return {};
  const std::shared_ptr<const void> kept = options.keep_alive;
  const bool is_told = options.on_done != nullptr;
  auto end = [transfer, keep_alive = std::move(options.keep_alive),
              on_done = std::move(options.on_done)](std::exception_ptr failure) {
    // The device has completed the work, but a thread of berth's may not have recorded it yet.
    wait_until_complete(transfer.get());
    if (!on_done) return;
    // The failure of the transfer takes precedence over the failure of the device.
    const std::exception_ptr own = transfer == nullptr ? nullptr : transfer->failure();
    on_done(own != nullptr ? own : failure);
  };
  if (is_told && transfer != nullptr) transfer->suppress_failure_report();
  try {
    Transfer given(transfer);
    if (has_end) completions.when_done(stream, std::move(end));  // nothing fails after this
    return given;
  } catch (...) {
    wait_until_complete(transfer.get());  // before keep_alive is released
    throw;
  }
}

}  // namespace berth
