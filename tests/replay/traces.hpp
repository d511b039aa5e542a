// SPDX-License-Identifier: Apache-2.0
// Traces made by hand.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "berth/trace.hpp"

namespace berth::test {

inline TraceEvent event(TraceOp op, std::int64_t id, std::uint64_t bytes, std::int32_t stream = 0,
                        std::int32_t device = 0) {
  return {op, device, stream, id, bytes, 0};
}

inline TraceEvent alloc(std::int64_t id, std::uint64_t bytes, std::int32_t stream = 0,
                        std::int32_t device = 0) {
  return event(TraceOp::alloc, id, bytes, stream, device);
}

inline TraceEvent release(std::int64_t id, std::uint64_t bytes, std::int32_t stream = 0,
                          std::int32_t device = 0) {
  return event(TraceOp::free, id, bytes, stream, device);
}

inline Trace make_trace(std::vector<TraceEvent> events) {
  return {"made by hand", {}, std::move(events)};
}

}  // namespace berth::test
