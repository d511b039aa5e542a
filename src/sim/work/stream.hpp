// SPDX-License-Identifier: Apache-2.0
// A stream: a queue of operations that run in order. A destroyed stream continues to exist,
// invisible to calls, until its queue is empty. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "sim/check/happens_before.hpp"
#include "sim/graph/capture.hpp"
#include "sim/handle_table.hpp"
#include "sim/work/operation_queue.hpp"

namespace berth::sim {

/// The range of cuCtxGetStreamPriorityRange; lower numbers have higher priority.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

enum class StreamKind {
  blocking,      ///< created by a call; it and the legacy stream wait for each other
  non_blocking,  ///< created by a call with CU_STREAM_NON_BLOCKING
  legacy,        ///< the default stream of its context
  per_thread,    ///< the default stream of one thread; also blocking
};

/// Values that CUDA reserves for default streams, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
inline constexpr Handle kLegacyStream = 1;
inline constexpr Handle kPerThreadStream = 2;

/// The position of a stream with work in the scheduler.
enum class Place {
  none,      ///< its head runs, or waits for other work
  ready,     ///< its head is eligible
  at_value,  ///< its head is eligible once memory has a value
};

/// What a program sets for kernels and waits, which has no effect.
struct StreamAttributes {
  CUaccessPolicyWindow window = {};
  CUsynchronizationPolicy policy = CU_SYNC_POLICY_AUTO;
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchMemSyncDomainMap domains = {0, 1};
};

struct Stream {
  Stream(Handle handle_, Handle context_, int device_, StreamKind kind_, int priority_)
      : handle(handle_),
        context(context_),
        device(device_),
        kind(kind_),
        priority(priority_),
        caller_handle(kind_ == StreamKind::legacy       ? kLegacyStream
                      : kind_ == StreamKind::per_thread ? kPerThreadStream
                                                        : handle_) {}

  /// Created by a call, and not destroyed.
  [[nodiscard]] bool was_created() const {
    return !destroyed && launcher == 0 &&
           (kind == StreamKind::blocking || kind == StreamKind::non_blocking);
  }

  Handle handle;
  Handle context;
  int device;  ///< slot
  StreamKind kind;
  int priority;
  const CallStack* made_at = nullptr;  ///< null if call sites are off, and for default streams
  Handle caller_handle;  ///< as returned to callers; for a chain of a graph, the launching stream
  bool destroyed = false;
  bool running = false;    ///< its head: without the lock, in the program, or in virtual time
  bool computing = false;  ///< its head, which is a kernel, in the program
  /// Virtual time: the time at which its head became eligible.
  std::uint64_t ready_ns = 0;
  std::uint64_t began_ns = 0;  ///< its head, or the last operation that ran
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  std::uint64_t reported = 0;  ///< the operation of which a finding says that it does not end
  OperationQueue queue;
  StreamOrder order;
  /// Of the kernel that ran last on the stream, or polls; nullopt if the last operation was not a
  /// kernel.
  std::optional<Arrival> kernel_arrival = std::nullopt;
  CapturePoint captured;  ///< its position in a capture; empty if it is not capturing
  Handle launcher = 0;    ///< for a lane of a launched graph or a batch, the stream of the launch
  StreamAttributes attributes = {};
  std::optional<int> channel = std::nullopt;  ///< the channel in its context; none: not shared
  std::size_t busy_index = 0;  ///< index in the scheduler's busy streams, while it has work
  Place place = Place::none;
  std::size_t place_index = 0;  ///< index among the streams in that place, except in virtual time
  /// Streams whose heads wait for the operation of that number, in order. May contain streams that
  /// do not wait any more.
  using Waiter = std::pair<std::uint64_t, Handle>;
  std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>> waiters;
};

using Streams = HandleTable<Stream, HandleKind::stream>;

}  // namespace berth::sim
