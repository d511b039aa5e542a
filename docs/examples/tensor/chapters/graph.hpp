// SPDX-License-Identifier: Apache-2.0
// A CUDA graph with the memory that it works in.
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
    const berth::DeviceGuard guard(devices(), stream_.device());
    // Tensors that `body` makes get memory that only this graph uses.
    const auto scope = berth::PoolScope::on_stream(pool_, stream_);
    constexpr int kThreadLocal = 1;
    call<int(CUstream_st*, int)>("cuStreamBeginCapture", 10010, stream_.native(), kThreadLocal);
    void* graph = nullptr;
    try {
      body();
    } catch (...) {
      find<int(CUstream_st*, void**)>("cuStreamEndCapture", 10000)(stream_.native(), &graph);
      if (graph != nullptr) find<int(void*)>("cuGraphDestroy", 10000)(graph);
      throw;
    }
    call<int(CUstream_st*, void**)>("cuStreamEndCapture", 10000, stream_.native(), &graph);
    using Instantiate = int(void**, void*, unsigned long long);
    call<Instantiate>("cuGraphInstantiateWithFlags", 11040, &executable_, graph, 0ULL);
    call<int(void*)>("cuGraphDestroy", 10000, graph);
  }
  ~Graph() {
    find<int(void*)>("cuGraphExecDestroy", 10000)(executable_);
    stream_.sync();  // the memory goes with the graph
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Runs the captured work once more, in the order of the stream.
  void launch() const {
    const berth::DeviceGuard guard(devices(), stream_.device());
    call<int(void*, CUstream_st*)>("cuGraphLaunch", 10000, executable_, stream_.native());
  }
  [[nodiscard]] std::size_t bytes() const { return pool_.counters().bytes_reserved.current; }

 private:
  template <class Function>
  static Function* find(const char* name, int version) {
    void* const address = library().runtime.driver_function(name, version);
    if (address == nullptr) throw berth::NotSupported(std::string("the driver lacks ") + name);
    return reinterpret_cast<Function*>(address);
  }
  template <class Function, class... Values>
  static void call(const char* name, int version, Values... values) {
    const int code = find<Function>(name, version)(values...);
    if (code != 0) throw berth::DriverError(std::string(name) + " failed", code);
  }

  berth::StreamRef stream_;
  berth::MemoryPool pool_;
  void* executable_ = nullptr;
};

}  // namespace mini
