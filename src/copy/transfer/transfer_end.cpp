// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_end.hpp"

#include <memory>
#include <utility>

namespace berth {
namespace {

/// Null is over.
void wait_until_over(TransferState* transfer) noexcept {
  try {
    if (transfer != nullptr) transfer->wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the failure to promise its end is what is told
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
    // The device is done. A thread of ours may just have asked, and have to say so yet.
    wait_until_over(transfer.get());
    if (!on_done) return;
    // Of a failure of the device and one of its own a transfer tells the second.
    const std::exception_ptr own = transfer == nullptr ? nullptr : transfer->failure();
    on_done(own != nullptr ? own : failure);
  };
  if (is_told && transfer != nullptr) transfer->promise_to_tell();
  try {
    Transfer given(transfer);
    if (has_end) completions.when_done(stream, std::move(end));  // nothing fails from here on
    return given;
  } catch (...) {
    wait_until_over(transfer.get());  // before what was kept for it goes
    throw;
  }
}

}  // namespace berth
