// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_op.hpp"

#include <array>

namespace berth {
namespace {

struct OpWord {
  TraceOp op;
  std::string_view word;
};

constexpr std::array kOpWords = {
    OpWord{TraceOp::init_alloc, "init_alloc"},
    OpWord{TraceOp::alloc, "alloc"},
    OpWord{TraceOp::free, "free"},
    OpWord{TraceOp::free_requested, "free_requested"},
    OpWord{TraceOp::free_completed, "free_completed"},
    OpWord{TraceOp::init_segment, "init_segment"},
    OpWord{TraceOp::segment_alloc, "segment_alloc"},
    OpWord{TraceOp::segment_free, "segment_free"},
    OpWord{TraceOp::segment_map, "segment_map"},
    OpWord{TraceOp::segment_unmap, "segment_unmap"},
    OpWord{TraceOp::reserved_total, "reserved_total"},
    OpWord{TraceOp::out_of_memory, "oom"},
    OpWord{TraceOp::snapshot, "snapshot"},
};

}  // namespace

std::optional<TraceOp> parse_trace_op(std::string_view word) {
  for (const OpWord& entry : kOpWords)
    if (entry.word == word) return entry.op;
  return std::nullopt;
}

std::string trace_op_words() {
  std::string words;
  for (const OpWord& entry : kOpWords) {
    if (!words.empty()) words += ", ";
    words += entry.word;
  }
  return words;
}

bool is_block_op(TraceOp op) {
  return op <= TraceOp::free_completed;
}

}  // namespace berth
