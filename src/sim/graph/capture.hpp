// SPDX-License-Identifier: Apache-2.0
// A capture: from cuStreamBeginCapture to cuStreamEndCapture, the work of some streams becomes
// nodes of a graph instead of running. It spreads from its origin to every stream that waits for an
// event recorded in it. What must hold: a stream is in at most one capture; its nodes are of that
// capture's graph. What is forbidden meanwhile: capture_rules.hpp. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "base/mutex.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct Event;
struct GraphNode;
struct State;
struct Stream;

struct Capture {
  Capture(Handle handle_, Handle graph_, Handle origin_, CUstreamCaptureMode mode_,
          std::uint64_t thread_)
      : handle(handle_), graph(graph_), origin(origin_), mode(mode_), thread(thread_) {}

  Handle handle;  ///< also its id: no value is used twice
  Handle graph;   ///< into which it records
  Handle origin;  ///< the stream on which it began, and must end
  CUstreamCaptureMode mode;
  std::uint64_t thread;      ///< that began it, by ThreadState::id
  bool invalidated = false;  ///< broke a rule; must still be ended
};

using Captures = HandleTable<Capture, HandleKind::capture>;

/// Where a stream or an event stands in a capture: what follows depends on `nodes`.
struct CapturePoint {
  Handle capture = 0;  ///< 0 where it is in none; stale in an event, once the capture has ended
  std::vector<CUgraphNode> nodes;  ///< each once
  /// For cuStreamGetCaptureInfo to point to: no edge has data, so all zero.
  std::vector<CUgraphEdgeData> edges;
};

/// The capture of `point`; null where it is in none, or it has ended.
Capture* find_capture(State& state, const CapturePoint& point);

/// Starts a capture on `stream`, which is in none.
void begin_capture(State& state, Stream& stream, CUstreamCaptureMode mode, std::uint64_t thread);
/// Ends `capture`: its streams run work again. The graph; 0 where the capture was invalidated, or
/// has nodes in other streams that its origin does not depend on, which `unjoined` tells.
struct CaptureEnd {
  Handle graph;
  bool unjoined;
};
CaptureEnd end_capture(State& state, const Capture& capture) BERTH_REQUIRES(mutex);
/// `stream` goes away: the capture that it is in is invalidated, or over where this is its origin.
void leave_capture(State& state, Stream& stream) BERTH_REQUIRES(mutex);

/// Adds a node behind those of `stream`, which is in a valid capture. `awaits`: see GraphNode.
GraphNode& capture_work(State& state, Stream& stream, Work work, Handle awaits = 0);
/// What follows on `stream` also depends on `nodes`, of the same capture; one that is in none
/// joins.
void join_capture(Stream& stream, const CapturePoint& point);

}  // namespace berth::sim
