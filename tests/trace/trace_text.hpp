// SPDX-License-Identifier: Apache-2.0
// Traces as text, so that a test compares rows and not fields.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "berth/trace.hpp"

namespace berth::test {

inline constexpr std::string_view kColumnLine = "op,id,bytes,stream,device,t_us\n";

inline std::string_view word(TraceOp op) {
  switch (op) {
    case TraceOp::init_alloc:
      return "init_alloc";
    case TraceOp::alloc:
      return "alloc";
    case TraceOp::free:
      return "free";
    case TraceOp::free_requested:
      return "free_requested";
    case TraceOp::free_completed:
      return "free_completed";
    case TraceOp::init_segment:
      return "init_segment";
    case TraceOp::segment_alloc:
      return "segment_alloc";
    case TraceOp::segment_free:
      return "segment_free";
    case TraceOp::segment_map:
      return "segment_map";
    case TraceOp::segment_unmap:
      return "segment_unmap";
    case TraceOp::reserved_total:
      return "reserved_total";
    case TraceOp::out_of_memory:
      return "oom";
    case TraceOp::snapshot:
      return "snapshot";
  }
  return "";
}

/// The events as rows of berth's format, without the line of columns.
inline std::string rows_of(const Trace& trace) {
  std::string rows;
  for (const TraceEvent& event : trace.events)
    rows += fmt::format("{},{},{},{},{},{}\n", word(event.op), event.id, event.bytes, event.stream,
                        event.device, event.time_us);
  return rows;
}

}  // namespace berth::test
