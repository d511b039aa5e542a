// SPDX-License-Identifier: Apache-2.0
// on_done and keep_alive: what happens when a transfer is complete.
#pragma once

#include <memory>

#include "berth/completion_queue.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// Arranges it in the order of `stream`, which has all work of the transfer, and returns the
/// Transfer. A null `transfer` gives an empty Transfer: the end is that of the stream's work so
/// far.
/// Errors  As CompletionQueue::when_done(): nothing will happen then, and the transfer is over.
Transfer end_transfer(CompletionQueue& completions, StreamRef stream,
                      const std::shared_ptr<TransferState>& transfer, TransferOptions options);

}  // namespace berth
