// SPDX-License-Identifier: Apache-2.0
// The order in which the nodes of a launched graph run, and races of and with them.
#include <atomic>
#include <set>
#include <string>

#include "sim/graph_fixture.hpp"

namespace graph_launch_test {

using namespace berth;
using namespace berth::test;

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

TEST_CASE("branches run in either order, and the join after both") {
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

TEST_CASE_FIXTURE(ManualFixture,
                  "launches of one executable graph on any streams wait for each other") {
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

TEST_CASE_FIXTURE(ManualFixture, "a branch is not blocked by what another branch waits for") {
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

TEST_CASE_FIXTURE(ManualFixture, "unordered branches of a graph race, and ordered nodes do not") {
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

TEST_CASE_FIXTURE(ManualFixture, "external events order a graph with other work") {
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

}  // namespace graph_launch_test
