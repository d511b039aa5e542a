// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>
#include <string>
#include <sys/mman.h>

#include "sim/graph_fixture.hpp"

using namespace berth;
using namespace berth::test;

namespace {

void fill(CUdeviceptr memory, unsigned char value, CUstream stream) {
  OK(CU(cuMemsetD8Async)(memory, value, 1, stream));
}

/// Fills a byte with 1; in two branches with 2 and 3; then, if `joined`, with 4.
CUgraphExec make_diamond(CUdeviceptr memory, bool joined) {
  const CUstream left = make_stream();
  const CUstream right = make_stream();
  begin_capture(left);
  fill(memory, 1, left);
  order(left, right);
  fill(memory, 2, left);
  fill(memory, 3, right);
  order(right, left);
  if (joined) fill(memory, 4, left);
  const CUgraph graph = end_capture(left);
  OK(CU(cuStreamDestroy)(left));
  OK(CU(cuStreamDestroy)(right));
  return make_executable(graph);
}

/// A graph that fills one byte.
CUgraphExec make_fill(CUdeviceptr memory, unsigned char value) {
  return make_executable(capture([&](CUstream stream) { fill(memory, value, stream); }));
}

}  // namespace

TEST_CASE("a graph runs in every mode") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(progress);
    SimFixture fixture(std::string("memory=64MiB,progress=") + progress);
    const CUdeviceptr memory = make_memory(1);
    const CUgraphExec exec = make_diamond(memory, true);
    const CUstream stream = make_stream();
    for (int launch = 0; launch < 3; ++launch) {
      fill(memory, 9, stream);
      OK(CU(cuGraphLaunch)(exec, stream));
      OK(CU(cuStreamSynchronize)(stream));
      CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 4));
    }
    CHECK(fixture.sim.live().streams_draining == 0);
    CHECK(fixture.sim.run_all() == 0);
    CHECK(found_race(fixture.sim));  // the branches write one byte
  }
}

TEST_CASE("branches run in either order, the join behind both") {
  std::set<unsigned char> last;
  for (int seed = 0; seed < 40; ++seed) {
    const SimFixture fixture("memory=64MiB,progress=random,checks=off,seed=" +
                             std::to_string(seed));
    const CUdeviceptr memory = make_memory(1);
    const CUstream stream = make_stream();
    OK(CU(cuGraphLaunch)(make_diamond(memory, false), stream));
    OK(CU(cuStreamSynchronize)(stream));
    last.insert(fixture.sim.peek(memory, 1)[0]);
    OK(CU(cuGraphLaunch)(make_diamond(memory, true), stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 4));
  }
  CHECK(last == std::set<unsigned char>{2, 3});
}

TEST_CASE("the same seed runs a graph in the same order") {
  const auto run = [] {
    const SimFixture fixture("memory=64MiB,progress=random,checks=off,seed=5");
    const CUgraphExec exec = make_diamond(make_memory(1), true);
    for (int launch = 0; launch < 10; ++launch) OK(CU(cuGraphLaunch)(exec, make_stream()));
    OK(CU(cuCtxSynchronize)());
    return fixture.sim.order_hash();
  };
  CHECK(run() == run());
}

TEST_CASE_FIXTURE(ManualFixture, "a launch is one operation of its stream, stepped node by node") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_diamond(memory, true);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  CHECK(sim.pending_operations(stream) == 1);
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 1));
  CHECK(sim.run_next(stream));
  const unsigned char branch = sim.peek(memory, 1)[0];
  CHECK(sim.run_next(stream));
  CHECK(branch + sim.peek(memory, 1)[0] == 2 + 3);
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 4));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(sim.run_next(stream));  // its end
  CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
  CHECK_FALSE(sim.run_next(stream));
  CHECK(found_race(sim));  // the branches write one byte
}

TEST_CASE_FIXTURE(ManualFixture, "a launch waits for its stream, and what follows waits for it") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_fill(memory, 2);
  const CUstream stream = make_stream();
  fill(memory, 1, stream);
  OK(CU(cuGraphLaunch)(exec, stream));
  fill(memory, 3, stream);
  for (const int value : {1, 1, 2, 2, 3}) {  // a fork and a join fill nothing
    CHECK(sim.run_next(stream));
    CHECK(sim.peek(memory, 1)[0] == value);
  }
  CHECK_FALSE(sim.run_next(stream));
}

TEST_CASE_FIXTURE(ManualFixture, "launches of one executable graph wait for each other anywhere") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_fill(memory, 2);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  OK(CU(cuGraphLaunch)(exec, first));
  OK(CU(cuGraphLaunch)(exec, second));
  CHECK_FALSE(sim.run_next(second));
  CHECK(sim.run_next(first));
  CHECK_FALSE(sim.run_next(second));
  CHECK(sim.run_next(first));
  CHECK(sim.run_next(second));
}

TEST_CASE_FIXTURE(ManualFixture, "two executable graphs do not wait for each other") {
  const CUdeviceptr memory = make_memory(1);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  OK(CU(cuGraphLaunch)(make_fill(memory, 1), first));
  OK(CU(cuGraphLaunch)(make_fill(memory, 2), second));
  CHECK(sim.run_next(second));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 2));
  CHECK(sim.pending_operations(first) == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "one branch is not held up by what another waits for") {
  const CUstream stream = make_stream();
  const CUstream fork = make_stream();
  const CUstream outside = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr held = make_memory(1);
  const CUdeviceptr free = make_memory(1);
  begin_capture(stream);
  order(stream, fork);
  OK(CU(cuStreamWaitEvent)(stream, event, CU_EVENT_WAIT_EXTERNAL));
  fill(held, 1, stream);
  fill(free, 2, fork);
  order(fork, stream);
  const CUgraphExec exec = make_executable(end_capture(stream));
  fill(held, 9, outside);
  OK(CU(cuEventRecord)(event, outside));
  OK(CU(cuGraphLaunch)(exec, stream));
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(free, 1) == bytes_of(1, 2));
  CHECK_FALSE(sim.run_next(stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(held, 1) == bytes_of(1, 1));
  CHECK(sim.pending_operations(outside) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "an external record belongs to the latest launch") {
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUgraphExec exec = make_executable(capture([&](CUstream captured) {
    OK(CU(cuEventRecordWithFlags)(event, captured, CU_EVENT_RECORD_EXTERNAL));
  }));
  for (int launch = 0; launch < 2; ++launch) {
    OK(CU(cuGraphLaunch)(exec, stream));
    CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
    OK(CU(cuEventSynchronize)(event));
    CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
  }
}

TEST_CASE_FIXTURE(ManualFixture, "external events are for captures, and flags are checked") {
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  CHECK(CU(cuEventRecordWithFlags)(event, stream, CU_EVENT_RECORD_EXTERNAL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWaitEvent)(stream, event, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventRecordWithFlags)(event, stream, CU_EVENT_RECORD_DEFAULT) == CUDA_SUCCESS);
  begin_capture(stream);
  CHECK(CU(cuEventRecordWithFlags)(event, stream, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWaitEvent)(stream, event, 2) == CUDA_ERROR_INVALID_VALUE);
  end_capture(stream);
}

TEST_CASE_FIXTURE(EagerFixture, "all of a graph is queued before a host function of it runs") {
  struct Observer {
    const sim::Simulator& sim;
    CUstream stream;
    std::size_t pending = 0;
    int calls = 0;
  } observer{sim, make_stream()};
  const CUhostFn observe = [](void* data) {
    auto& seen = *static_cast<Observer*>(data);
    seen.pending += seen.sim.pending_operations(seen.stream);
    ++seen.calls;
  };
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    OK(CU(cuLaunchHostFunc)(stream, observe, &observer));
    OK(CU(cuLaunchHostFunc)(stream, observe, &observer));
  }));
  OK(CU(cuGraphLaunch)(exec, observer.stream));
  OK(CU(cuStreamSynchronize)(observer.stream));
  CHECK(observer.calls == 2);
  CHECK(observer.pending == 2);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph and what it was made from live apart") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph graph = capture([&](CUstream stream) { fill(memory, 5, stream); });
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  CHECK(sim.live().graphs == 1);
  CHECK(sim.live().graph_execs == 1);
  OK(CU(cuGraphDestroy)(graph));
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuStreamDestroy)(stream));
  CHECK(sim.live().graphs == 0);
  CHECK(sim.live().graph_execs == 0);
  CHECK(sim.live().streams == 0);
  CHECK(sim.live().streams_draining == 1);  // the chain is no stream of the caller's
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(memory, 1) == bytes_of(1, 5));
  CHECK(sim.live().streams_draining == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "graphs that are alive are listed") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph graph = capture([&](CUstream stream) { fill(memory, 5, stream); });
  const CUgraphExec exec = make_fill(memory, 1);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  begin_capture(make_stream());
  std::string list;
  for (const std::string& line : sim.live_list()) list += line + "\n";
  for (const char* part : {"capture that began on stream", ", 1 nodes", "executable graph",
                           "part of a graph or batch on stream"})
    CHECK_MESSAGE(list.find(part) != std::string::npos, part);
  CHECK(nodes_of(graph).size() == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph that a capture records into is the capture's") {
  const CUstream stream = make_stream();
  begin_capture(stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  CUgraphExec exec = nullptr;
  CHECK(CU(cuGraphDestroy)(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(end_capture(stream) == graph);
  CHECK(CU(cuGraphDestroy)(graph) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a launch cannot be captured") {
  const CUgraphExec exec = make_fill(make_memory(1), 1);
  const CUstream stream = make_stream();
  begin_capture(stream);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph whose event or context is gone does not start") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  const CUevent recorded = make_event();
  const CUevent awaited = make_event();
  const CUgraphExec records = make_executable(capture([&](CUstream captured) {
    fill(memory, 1, captured);
    OK(CU(cuEventRecordWithFlags)(recorded, captured, CU_EVENT_RECORD_EXTERNAL));
  }));
  const CUgraphExec waits = make_executable(capture([&](CUstream captured) {
    fill(memory, 1, captured);
    OK(CU(cuStreamWaitEvent)(captured, awaited, CU_EVENT_WAIT_EXTERNAL));
  }));
  OK(CU(cuEventDestroy)(recorded));
  OK(CU(cuEventDestroy)(awaited));
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(second));
  const CUgraphExec elsewhere = make_fill(make_memory(1), 1);
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  CHECK(found_leak(sim, "1 allocation of 1 B"));
  for (const CUgraphExec exec : {records, waits, elsewhere})
    CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.pending_operations(stream) == 0);
  CHECK(sim.run_all() == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph that uses freed device memory faults when it runs") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_fill(memory, 1);
  OK(CU(cuMemFree)(memory));
  const CUstream stream = make_stream();
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_SUCCESS);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a graph that uses pageable memory that is gone faults when it runs") {
  for (const bool reads : {true, false}) {
    CAPTURE(reads);
    const ManualFixture fixture;
    void* const page =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    const CUdeviceptr memory = make_memory(64);
    const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
      const CUdeviceptr host = address_of(static_cast<unsigned char*>(page));
      OK(reads ? CU(cuMemcpyAsync)(memory, host, 64, stream)
               : CU(cuMemcpyAsync)(host, memory, 64, stream));
    }));
    const CUstream stream = make_stream();
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuGraphLaunch)(exec, stream));
    REQUIRE(munmap(page, 4096) == 0);
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a context that goes waits for graphs that run in it") {
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(second));
  unsigned char* there = make_pinned(1);
  const CUgraphExec exec = make_fill(address_of(there), 7);
  OK(CU(cuCtxPopCurrent)(nullptr));
  const CUstream stream = make_stream();
  unsigned char* here = make_pinned(1);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuMemcpyAsync)(address_of(here), address_of(there), 1, stream));
  CHECK(*here == 7);
  OK(CU(cuGraphLaunch)(exec, stream));
  CHECK(sim.pending_operations(stream) == 1);
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  CHECK(found_leak(sim, "1 pinned host allocation"));
  CHECK(sim.run_next(stream));  // only its end was left
  CHECK_FALSE(sim.run_next(stream));
}

TEST_CASE_FIXTURE(ManualFixture, "empty nodes order, whatever they come behind") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUgraphNode nodes[3] = {};
  OK(CU(cuGraphAddEmptyNode)(&nodes[0], graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&nodes[1], graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&nodes[2], graph, nodes, 2));
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  OK(CU(cuGraphNodeGetType)(nodes[2], &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_EMPTY);
  const CUgraphExec exec = make_executable(graph);
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  fill(memory, 1, stream);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 1));
}

TEST_CASE_FIXTURE(ManualFixture, "a list of nodes or edges is cut short and filled up") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUgraphNode nodes[3] = {};
  for (std::size_t i = 0; i < 3; ++i) OK(CU(cuGraphAddEmptyNode)(&nodes[i], graph, nodes, i));
  CUgraphNode listed[4] = {nodes[2], nodes[0], nodes[0], nodes[0]};
  std::size_t count = 1;
  OK(CU(cuGraphGetNodes)(graph, listed, &count));
  CHECK(count == 1);
  CHECK(listed[0] == nodes[0]);
  CHECK(listed[1] == nodes[0]);
  count = 4;
  OK(CU(cuGraphGetNodes)(graph, listed, &count));
  CHECK(count == 3);
  CHECK(listed[2] == nodes[2]);
  CHECK(listed[3] == nullptr);
  CUgraphNode from[4] = {};
  CUgraphNode to[4] = {nodes[0], nodes[0], nodes[0], nodes[0]};
  CUgraphEdgeData data[4];
  count = 4;
  OK(CU(cuGraphGetEdges)(graph, from, to, data, &count));
  CHECK(count == 3);
  CHECK(from[2] == nodes[1]);
  CHECK(to[2] == nodes[2]);
  CHECK(to[3] == nullptr);
  CHECK(data[2].type == 0);
  count = 1;
  OK(CU(cuGraphGetEdges)(graph, from, to, nullptr, &count));
  CHECK(count == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "graphs refuse hostile arguments") {
  CUgraph graph = nullptr;
  CUgraph other = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphCreate)(&other, 0));
  CUgraphNode node = nullptr;
  CUgraphNode foreign = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&foreign, other, nullptr, 0));
  CUgraphExec exec = nullptr;
  std::size_t count = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  const auto* nowhere = reinterpret_cast<const CUgraphNode*>(16);
  const auto refused = [](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };

  CHECK(refused(CU(cuGraphCreate)(nullptr, 0)));
  CHECK(refused(CU(cuGraphCreate)(&graph, 1)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(nullptr, graph, nullptr, 0)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 1)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, nowhere, ~std::size_t{0})));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, &foreign, 1)));
  CHECK(refused(CU(cuGraphGetNodes)(graph, nullptr, nullptr)));
  CHECK(refused(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, nullptr)));
  CHECK(refused(CU(cuGraphGetEdges)(graph, &node, nullptr, nullptr, &count)));
  CHECK(refused(CU(cuGraphNodeGetType)(node, nullptr)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(nullptr, graph, 0)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, graph, 16)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, graph, ~0ULL)));
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuGraphInstantiateWithFlags)(
            &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) == CUDA_SUCCESS);
  CHECK(CU(cuGraphLaunch)(exec, reinterpret_cast<CUstream>(&exec)) == CUDA_ERROR_INVALID_HANDLE);

  OK(CU(cuGraphDestroy)(other));
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(refused(CU(cuGraphExecDestroy)(exec)));
  CHECK(refused(CU(cuGraphLaunch)(exec, nullptr)));
  CHECK(refused(CU(cuGraphNodeGetType)(foreign, &type)));
  for (const CUgraph bad : {CUgraph{nullptr}, other, reinterpret_cast<CUgraph>(node)}) {
    CHECK(refused(CU(cuGraphDestroy)(bad)));
    CHECK(refused(CU(cuGraphGetNodes)(bad, nullptr, &count)));
    CHECK(refused(CU(cuGraphGetEdges)(bad, nullptr, nullptr, nullptr, &count)));
    CHECK(refused(CU(cuGraphAddEmptyNode)(&node, bad, nullptr, 0)));
    CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, bad, 0)));
  }
}

TEST_CASE_FIXTURE(ManualFixture, "branches of a graph race, what its edges order does not") {
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(make_diamond(memory, true), stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(found_race(sim));  // 2 and 3
  const CUgraphExec ordered = make_executable(capture([&](CUstream captured) {
    const CUstream fork = make_stream();
    fill(memory, 1, captured);
    order(captured, fork);
    fill(memory, 2, fork);
    order(fork, captured);
    fill(memory, 3, captured);
  }));
  OK(CU(cuGraphLaunch)(ordered, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK_FALSE(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a launch is ordered with its stream and itself, and nothing else") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_fill(memory, 1);
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  fill(memory, 2, stream);
  OK(CU(cuGraphLaunch)(exec, stream));
  fill(memory, 3, stream);
  order(stream, other);
  OK(CU(cuGraphLaunch)(exec, other));
  sim.run_all();
  CHECK_FALSE(found_race(sim));
  OK(CU(cuGraphLaunch)(exec, stream));
  sim.run_all();
  CHECK_FALSE(found_race(sim));
  fill(memory, 4, other);
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "external events order a graph with work outside") {
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  const CUstream outside = make_stream();
  const CUevent before = make_event();
  const CUevent after = make_event();
  const CUgraphExec exec = make_executable(capture([&](CUstream captured) {
    OK(CU(cuStreamWaitEvent)(captured, before, CU_EVENT_WAIT_EXTERNAL));
    fill(memory, 1, captured);
    OK(CU(cuEventRecordWithFlags)(after, captured, CU_EVENT_RECORD_EXTERNAL));
  }));
  fill(memory, 2, outside);
  OK(CU(cuEventRecord)(before, outside));
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamWaitEvent)(outside, after, 0));
  fill(memory, 3, outside);
  sim.run_all();
  CHECK_FALSE(found_race(sim));
  OK(CU(cuGraphLaunch)(exec, stream));  // the record is still that of the first launch
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE("in virtual time the branches of a graph overlap") {
  SimFixture fixture("memory=64MiB,progress=timed");
  sim::Simulator& sim = fixture.sim;
  constexpr std::uint64_t bytes = 16 << 20;
  const CUdeviceptr memory = make_memory(bytes);
  unsigned char* const pinned = make_pinned(bytes);
  const CUstream stream = make_stream();
  const CUstream fork = make_stream();
  const auto time = [&](const std::function<void()>& body) {
    const std::uint64_t start = sim.now_ns();
    body();
    OK(CU(cuCtxSynchronize)());
    return sim.now_ns() - start;
  };
  const std::uint64_t copying =
      time([&] { OK(CU(cuMemcpyAsync)(memory, address_of(pinned), bytes, stream)); });
  begin_capture(stream);
  order(stream, fork);
  OK(CU(cuMemcpyAsync)(memory, address_of(pinned), bytes, stream));
  CHECK(sim.launch(fork, copying));
  order(fork, stream);
  const CUgraph graph = end_capture(stream);
  std::set<int> types;
  for (const CUgraphNode node : nodes_of(graph)) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    OK(CU(cuGraphNodeGetType)(node, &type));
    types.insert(type);
  }
  CHECK(types == std::set<int>{CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY});
  const CUgraphExec exec = make_executable(graph);
  const std::uint64_t both = time([&] { OK(CU(cuGraphLaunch)(exec, stream)); });
  CHECK(both >= copying);
  CHECK(both < copying + copying / 2);
}
