// SPDX-License-Identifier: Apache-2.0
// What every copying call does: looks its addresses up, queues the copy, and waits as long as CUDA
// says that the host does. Guarded by sim::mutex.
// Source: CUDA Driver API, "API synchronization behavior", "Unified Addressing".
#pragma once

#include <cuda.h>

#include "base/mutex.hpp"
#include "sim/call.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

/// What a function lets one side of a copy be; pinned memory is both.
enum class Side { any, host, device };

struct Sides {
  Side to = Side::any;
  Side from = Side::any;
};

/// A copy whose addresses were looked up.
struct KnownCopy {
  /// Whether the host is free once the copy is queued: to pageable memory, and between two pieces
  /// of host memory, it is not.
  [[nodiscard]] bool frees_host() const {
    return (in_reach || !work.destination_pageable) && !(to_host && from_host);
  }

  CopyWork work;
  bool to_host;  ///< pinned memory or pageable
  bool from_host;
  bool in_reach = false;  ///< the device gets at pageable memory by itself: nothing is staged
};

/// Looks up `work`, which has bytes, for a stream of `context`. CUDA_ERROR_INVALID_VALUE where a
/// side is not what it may be, or is closed to the context.
CUresult look_up(State& state, const Context& context, CopyWork work, Sides sides,
                 KnownCopy& known);

/// Keeps the source of `work`, which is pageable, as it is now. False where the system has no room.
bool stage(CopyWork& work);

/// Queues `copy` on `stream`, or captures it. May let go of the lock to wait.
CUresult queue_copy(Call& call, Stream& stream, KnownCopy copy) BERTH_REQUIRES(mutex);

/// A whole call of an asynchronous function. May let go of the lock to wait.
CUresult copy_async(Call& call, CUstream stream, const CopyWork& work, Sides sides)
    BERTH_REQUIRES(mutex);
/// A whole call of a synchronous function, which works on the null stream. May let go of the lock.
CUresult copy_now(Call& call, const CopyWork& work, Sides sides) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
