// SPDX-License-Identifier: Apache-2.0
// on_done and keep_alive: the actions on the completion of a transfer.
#pragma once

#include <memory>

#include "berth/completion_queue.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

#include "copy/transfer/transfer_state.hpp"

namespace berth {

/// Arranges the actions in the order of `stream`, which has all work of the transfer, and returns
/// the Transfer. If `transfer` is null, the actions follow the work submitted to the stream so far,
/// and an empty Transfer is returned.
/// Errors  As CompletionQueue::when_done(): the actions will not take place, and the transfer is
///         complete.
Transfer end_transfer(CompletionQueue& completions, StreamRef stream,
                      const std::shared_ptr<TransferState>& transfer, TransferOptions options);

}  // namespace berth
