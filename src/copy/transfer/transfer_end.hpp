// SPDX-License-Identifier: Apache-2.0
// What a program wants to happen when a transfer is over.
#pragma once

#include <memory>

#include "berth/completion_queue.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// Sees to it, in the order of `stream`, which holds all of the transfer's work, and gives the
/// transfer.
/// Errors  As CompletionQueue::when_done(): nothing will happen then, and the transfer is over.
/// Null gives an empty Transfer, which is over where the stream is.
Transfer end_transfer(CompletionQueue& completions, StreamRef stream,
                      const std::shared_ptr<TransferState>& transfer, TransferOptions options);

}  // namespace berth
