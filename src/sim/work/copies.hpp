// SPDX-License-Identifier: Apache-2.0
// The common part of all copy calls: looks up the addresses, queues the copy, and waits as
// documented for CUDA. Guarded by sim::mutex.
// Source: CUDA Driver API, "API synchronization behavior", "Unified Addressing".
#pragma once

#include <cuda.h>

#include <initializer_list>

#include "base/mutex.hpp"
#include "sim/call.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

/// The kind of memory that a function accepts on one side; pinned memory is both.
enum class Side { any, host, device };

struct Sides {
  Side to = Side::any;
  Side from = Side::any;
};

/// A copy with resolved addresses.
struct KnownCopy {
  /// Whether the call returns once the copy is queued. False for copies to pageable memory, and
  /// between host memory.
  [[nodiscard]] bool is_asynchronous() const {
    return (device_accessible || !work.destination_pageable) && !(to_host && from_host);
  }

  CopyWork work;
  bool to_host;  ///< pinned memory or pageable
  bool from_host;
  bool device_accessible =
      false;  ///< the device accesses pageable memory itself: nothing is staged
};

/// Resolves the addresses of `work`, which is not empty, for a stream of `context`.
/// CUDA_ERROR_INVALID_VALUE if a side has a kind that is not accepted, or the context cannot access
/// it.
CUresult look_up(State& state, const Context& context, CopyWork work, Sides sides,
                 KnownCopy& known);

/// Saves the current content of the pageable source of `work`. False if the system is out of
/// memory.
bool stage(CopyWork& work);

/// Queues `copy` on `stream`, or captures it. May release the lock to wait.
CUresult queue_copy(Call& call, Stream& stream, KnownCopy copy) BERTH_REQUIRES(mutex);

/// Implements an asynchronous function. May release the lock to wait.
CUresult copy_async(Call& call, CUstream stream, const CopyWork& work, Sides sides)
    BERTH_REQUIRES(mutex);
/// Waits for the work of each context, if the program may observe it now. May release the lock.
CUresult await_contexts(Call& call, std::initializer_list<Handle> contexts) BERTH_REQUIRES(mutex);
/// Implements a synchronous function, which uses the null stream. May release the lock.
CUresult copy_now(Call& call, const CopyWork& work, Sides sides) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
