// SPDX-License-Identifier: Apache-2.0
// The operations of a trace as words, which are the same in berth's format and in PyTorch's
// snapshots.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "berth/trace.hpp"

namespace berth {

/// nullopt for other words.
std::optional<TraceOp> parse_trace_op(std::string_view word);

/// Every word, for errors: "init_alloc, alloc, ...".
std::string trace_op_words();

/// Whether the operation starts or ends a block, and so has a block's id.
bool is_block_op(TraceOp op);

}  // namespace berth
