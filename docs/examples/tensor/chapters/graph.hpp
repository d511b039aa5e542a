// SPDX-License-Identifier: Apache-2.0
// A step that is captured once and replayed many times, with the memory that it works in.
#pragma once

#include "../core/ops.hpp"

namespace mini {

class Graph {
 public:
  /// Captures what `body` submits to the current stream of a device, which does not run meanwhile.
  template <class Body>
  Graph(Device device, const Body& body)
      : stream_(library().stream(device)),
        pool_(library().runtime.memory(device).create_pool({.name = "graph", .for_graphs = true})) {
    const berth::StreamGuard guard(stream_);
    // Tensors that `body` makes get memory that only this graph uses.
    const auto scope = berth::PoolScope::on_stream(pool_, stream_);
    berth::GraphCapture capture(stream_);
    body();  // if it throws, the capture ends, and its work is dropped
    graph_ = capture.end();
  }
  ~Graph() { stream_.sync(); }  // then the pool may be closed
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Runs the captured work once more, in the order of the stream.
  void replay() const { graph_.replay(stream_); }
  [[nodiscard]] std::size_t bytes() const { return pool_.counters().bytes_reserved.current; }

 private:
  berth::StreamRef stream_;
  berth::MemoryPool pool_;
  berth::Graph graph_;
};

}  // namespace mini
