// SPDX-License-Identifier: Apache-2.0
// A trace prepared for a run: only the program's requests, in a compact array with dense indexes,
// so that the replaying loop needs no lookups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "berth/trace.hpp"

namespace berth::tool {

struct ReplayOperation {
  std::uint64_t bytes;   ///< as requested; for a free, of its block
  std::uint32_t slot;    ///< the place of the block's address while it is live
  std::uint16_t stream;  ///< index into the replay's streams; 0 is the default stream
  bool allocates;        ///< or frees
};
static_assert(sizeof(ReplayOperation) == 16);

struct LivePeak {
  std::uint64_t bytes = 0;
  std::size_t operation = 0;  ///< the first that reached it; 0 if `bytes` is 0
};

struct ReplayPlan {
  std::string trace;        ///< Trace::name
  std::int32_t device = 0;  ///< ordinal on the machine that recorded the trace
  std::vector<ReplayOperation> operations;
  std::size_t slots = 0;    ///< as many as blocks are live at once
  std::size_t streams = 1;  ///< the default stream, and each other stream of the trace
  std::size_t allocations = 0;

  /// The peak of live bytes, as requested, without the allocations at the operations `refused` (in
  /// increasing order).
  [[nodiscard]] LivePeak live_peak(std::span<const std::size_t> refused = {}) const;
};

/// One plan for each device of the trace, in the order of their ordinals, because the memory of
/// different devices is independent.
///
/// A block is freed when the recorded program could have reused it: at `free`, at `free_completed`,
/// and at `free_requested` if the trace has no `free_completed` for it. Rows of the recorded
/// allocator's own actions are left out.
///
/// Errors  InvalidArgument: an id that is allocated twice, or freed without being live; no
///         allocation at all; more than 65,535 streams.
std::vector<ReplayPlan> plan_replay(const Trace& trace);

}  // namespace berth::tool
