// SPDX-License-Identifier: Apache-2.0
#include "copy/transfer/transfer_end.hpp"

#include <utility>

namespace berth {

Transfer end_transfer(CompletionQueue& completions, StreamRef stream, Transfer transfer,
                      TransferOptions options) {
  if (options.on_done == nullptr && options.keep_alive == nullptr) return transfer;
  completions.when_done(stream, [transfer, keep_alive = std::move(options.keep_alive),
                                 on_done = std::move(options.on_done)](std::exception_ptr failure) {
    // Of a failure of the device and one of its own a transfer tells the second.
    const std::exception_ptr own = transfer.failure();
    if (on_done) on_done(own != nullptr ? own : failure);
  });
  return transfer;
}

}  // namespace berth
