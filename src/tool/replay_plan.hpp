// SPDX-License-Identifier: Apache-2.0
// A trace made ready to run: only what a program asked of its allocator, in a compact array with
// dense indexes, so that the replaying loop looks nothing up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "berth/trace.hpp"

namespace berth::tool {

struct ReplayOperation {
  std::uint64_t bytes;   ///< as asked; of the block, for a free too
  std::uint32_t slot;    ///< where the block's address is kept while it is live
  std::uint16_t stream;  ///< index into the replay's streams; 0 is the default stream
  bool allocates;        ///< or frees
};
static_assert(sizeof(ReplayOperation) == 16);

struct LivePeak {
  std::uint64_t bytes = 0;
  std::size_t operation = 0;  ///< the one that first reached it; 0 where `bytes` is 0
};

struct ReplayPlan {
  std::string trace;        ///< Trace::name
  std::int32_t device = 0;  ///< ordinal on the machine that recorded the trace
  std::vector<ReplayOperation> operations;
  std::size_t slots = 0;    ///< as many as blocks are live at once
  std::size_t streams = 1;  ///< the default stream, and each other stream of the trace
  std::size_t allocations = 0;

  /// The most bytes that are live at once, as asked for, where the allocations at the operations
  /// `refused` (in rising order) were not served.
  [[nodiscard]] LivePeak live_peak(std::span<const std::size_t> refused = {}) const;
};

/// One plan for each device that the trace was recorded on, in the order of their ordinals: memory
/// of different devices has nothing to do with each other.
///
/// A block is freed where the recorded program could have reused it: at `free`, at
/// `free_completed`, and at `free_requested` where the trace has no `free_completed` for it. Rows
/// that say what the recorded allocator did are left out.
///
/// Errors  InvalidArgument: an id that is allocated twice, or freed without being live; no
///         allocation at all; more than 65,535 streams.
std::vector<ReplayPlan> plan_replay(const Trace& trace);

}  // namespace berth::tool
