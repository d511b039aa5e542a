// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_end.hpp"

#include <memory>
#include <utility>

namespace berth {
namespace {

void wait_until_over(const Transfer& transfer) noexcept {
  try {
    transfer.wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the failure to promise its end is what is told
  }
}

}  // namespace

Transfer end_transfer(CompletionQueue& completions, StreamRef stream, Transfer transfer,
                      TransferOptions options) {
  if (options.on_done == nullptr && options.keep_alive == nullptr) return transfer;
  const std::shared_ptr<const void> kept = options.keep_alive;
  auto end = [transfer, keep_alive = std::move(options.keep_alive),
              on_done = std::move(options.on_done)](std::exception_ptr failure) {
    // The device is done. A thread of ours may just have asked, and have to say so yet.
    wait_until_over(transfer);
    // Of a failure of the device and one of its own a transfer tells the second.
    const std::exception_ptr own = transfer.failure();
    if (on_done) on_done(own != nullptr ? own : failure);
  };
  try {
    completions.when_done(stream, std::move(end));
  } catch (...) {
    wait_until_over(transfer);  // before what was kept for it goes
    throw;
  }
  return transfer;
}

}  // namespace berth
