// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_graph_capture {
  explicit berth_graph_capture(StreamRef stream) : capture(stream) {}

  GraphCapture capture;
};

struct berth_graph {
  Graph graph;
};

berth_status berth_graph_capture_begin(berth_stream stream, berth_graph_capture** capture) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    auto& out = require(capture, "capture");
    out = new berth_graph_capture(ref);
  });
}

berth_status berth_graph_capture_end(berth_graph_capture* capture, berth_graph** graph) {
  return guarded([&] {
    GraphCapture& ended = require(capture, "capture").capture;
    auto& out = require(graph, "graph");
    auto made = std::make_unique<berth_graph>();
    made->graph = ended.end();
    out = made.release();
  });
}

void berth_graph_capture_release(berth_graph_capture* capture) {
  delete capture;
}

berth_status berth_graph_replay(berth_graph* graph, berth_stream stream) {
  return guarded([&] {
    const Graph& replayed = require(graph, "graph").graph;
    replayed.replay(to_stream(stream));
  });
}

berth_status berth_graph_get_device(berth_graph* graph, berth_device* device) {
  return guarded([&] {
    const Graph& asked = require(graph, "graph").graph;
    auto& out = require(device, "device");
    out = from_device(asked.device());
  });
}

berth_status berth_graph_get_native(berth_graph* graph, struct CUgraphExec_st** native) {
  return guarded([&] {
    const Graph& asked = require(graph, "graph").graph;
    auto& out = require(native, "native");
    out = asked.native();
  });
}

void berth_graph_destroy(berth_graph* graph) {
  delete graph;
}
