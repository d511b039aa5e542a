// SPDX-License-Identifier: Apache-2.0
// What the functions of a buffer and those that create buffers have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "berth/transfer.hpp"

#include "buffer/buffer_set.hpp"
#include "buffer/buffer_transfer.hpp"

namespace berth {

/// Errors  InvalidArgument: null, the state of an empty buffer.
const BufferState& require_buffer(const std::shared_ptr<BufferState>& state);

/// `start(transfer)` begins the operations of the transfer, or throws.
template <class Start>
Transfer run_transfer(const std::shared_ptr<BufferSet>& set, TransferName name, std::size_t bytes,
                      TransferOptions options, const Start& start) {
  const auto transfer = std::make_shared<BufferTransfer>(set, name, bytes, std::move(options));
  Transfer given;
  try {
    given = Transfer(transfer);  // without memory for it, the new transfer is abandoned
    transfer->own();
    start(transfer);
  } catch (...) {
    transfer->withdraw();
    throw;
  }
  return given;
}

}  // namespace berth
