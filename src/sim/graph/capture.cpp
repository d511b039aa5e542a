// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/capture.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Whether every node of the capture precedes the next operation of its origin.
bool is_joined(State& state, const Capture& capture) {
  const Stream& origin = *state.streams.find(capture.origin);
  const std::unordered_set<Handle> reached = ancestors(state, origin.captured.nodes);
  bool joined = true;
  state.streams.for_each([&](const Stream& stream) {
    if (stream.captured.capture != capture.handle) return;
    for (const CUgraphNode node : stream.captured.nodes)
      joined = joined && reached.contains(reinterpret_cast<Handle>(node));
  });
  return joined;
}

/// Removes every stream from the capture, which has ended.
void dissolve(State& state, Handle capture) {
  state.streams.for_each([&](Stream& stream) {
    if (stream.captured.capture == capture) stream.captured = {};
  });
  state.captures.erase(capture);
}

}  // namespace

Capture* find_capture(State& state, const CapturePoint& point) {
  return state.captures.find(point.capture);
}

void begin_capture(State& state, Stream& stream, CUstreamCaptureMode mode, std::uint64_t thread,
                   Graph* graph, std::vector<CUgraphNode> nodes) {
  BERTH_CHECK(stream.captured.capture == 0);
  Graph& into = graph == nullptr ? state.graphs.create() : *graph;
  const Capture& capture =
      state.captures.create(into.handle, graph == nullptr, stream.handle, mode, thread);
  into.capture = capture.handle;
  stream.captured = {.capture = capture.handle, .nodes = std::move(nodes), .edges = {}};
}

CaptureEnd end_capture(State& state, const Capture& capture) {
  const Handle graph = capture.graph;
  const bool unjoined = !capture.invalidated && !is_joined(state, capture);
  const bool failed = capture.invalidated || unjoined;
  const bool owns_graph = capture.owns_graph;
  dissolve(state, capture.handle);
  state.graphs.find(graph)->capture = 0;
  if (failed && owns_graph) destroy_graph(state, graph);
  return {failed ? 0 : graph, unjoined};
}

void leave_capture(State& state, Stream& stream) {
  Capture* capture = find_capture(state, stream.captured);
  if (capture == nullptr) return;
  capture->invalidated = true;
  if (capture->origin == stream.handle) end_capture(state, *capture);
  stream.captured = {};
}

GraphNode& capture_work(State& state, Stream& stream, Work work, Handle awaits) {
  Graph& graph = *state.graphs.find(find_capture(state, stream.captured)->graph);
  GraphNode& node = add_node(state, graph, stream.context, std::move(work), stream.captured.nodes);
  node.awaits = awaits;
  stream.captured.nodes = {reinterpret_cast<CUgraphNode>(node.handle)};
  return node;
}

void join_capture(Stream& stream, const CapturePoint& point) {
  stream.captured.capture = point.capture;
  std::vector<CUgraphNode>& nodes = stream.captured.nodes;
  for (const CUgraphNode node : point.nodes)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

}  // namespace berth::sim
