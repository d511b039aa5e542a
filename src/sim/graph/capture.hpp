// SPDX-License-Identifier: Apache-2.0
// A capture: from cuStreamBeginCapture to cuStreamEndCapture, the work of some streams becomes
// nodes of a graph instead of running. It spreads from its origin to every stream that waits for an
// event recorded in it. Invariants: a stream is in at most one capture; its nodes belong to that
// capture's graph. capture_rules.hpp describes forbidden calls. Guarded by sim::mutex.
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
struct Graph;
struct GraphNode;
struct State;
struct Stream;

struct Capture {
  Capture(Handle handle_, Handle graph_, bool owns_graph_, Handle origin_,
          CUstreamCaptureMode mode_, std::uint64_t thread_)
      : handle(handle_),
        graph(graph_),
        owns_graph(owns_graph_),
        origin(origin_),
        mode(mode_),
        thread(thread_) {}

  Handle handle;    ///< also the id of the capture; never reused
  Handle graph;     ///< the graph that it records
  bool owns_graph;  ///< until it ends: the program did not create the graph
  Handle origin;    ///< the stream on which it began and must end
  CUstreamCaptureMode mode;
  std::uint64_t thread;      ///< ThreadState::id of the thread that began it
  bool invalidated = false;  ///< a rule was broken; it must still be ended
};

using Captures = HandleTable<Capture, HandleKind::capture>;

/// The position of a stream or an event in a capture: its next work depends on `nodes`.
struct CapturePoint {
  Handle capture = 0;              ///< 0: not in a capture; in an event, stale after the capture
  std::vector<CUgraphNode> nodes;  ///< without duplicates
  /// Returned by cuStreamGetCaptureInfo: edges have no data, so all are zero.
  std::vector<CUgraphEdgeData> edges;
};

/// The capture of `point`; null if it is in none, or the capture has ended.
Capture* find_capture(State& state, const CapturePoint& point);

/// Starts a capture on `stream`, which is not capturing: into `graph`, after its `nodes`, or into a
/// new graph if it is null.
void begin_capture(State& state, Stream& stream, CUstreamCaptureMode mode, std::uint64_t thread,
                   Graph* graph = nullptr, std::vector<CUgraphNode> nodes = {});
/// Ends `capture`: its streams run work again. Returns the graph; 0 if the capture was invalidated,
/// or has nodes in other streams that its origin does not depend on, in which case `unjoined` is
/// set.
struct CaptureEnd {
  Handle graph;
  bool unjoined;
};
CaptureEnd end_capture(State& state, const Capture& capture) BERTH_REQUIRES(mutex);
/// `stream` is destroyed: its capture is invalidated, or ended if `stream` is its origin.
void leave_capture(State& state, Stream& stream) BERTH_REQUIRES(mutex);

/// Adds a node after those of `stream`, which is in a valid capture. `awaits`: see GraphNode.
GraphNode& capture_work(State& state, Stream& stream, Work work, Handle awaits = 0);
/// The next work of `stream` also depends on `nodes`, of the same capture; a stream that is in no
/// capture joins it.
void join_capture(Stream& stream, const CapturePoint& point);

}  // namespace berth::sim
