// SPDX-License-Identifier: Apache-2.0
// Host memory that a graph uses, and that is reused or freed while the graph may be launched.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace graph_uses_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 64;

struct GraphUses : ManualFixture {
  GraphUses() {
    OK(CU(cuMemHostAlloc)(&pinned, kBytes, 0));
    device = make_memory(kBytes);
  }
  /// A graph that copies from the pinned memory.
  [[nodiscard]] CUgraph make_graph() const {
    return capture([&](CUstream stream) {
      OK(CU(cuMemcpyAsync)(device, reinterpret_cast<CUdeviceptr>(pinned), kBytes, stream));
    });
  }
  /// The only finding.
  std::string finding() {
    const std::vector<std::string> findings = sim.take_findings();
    REQUIRE(findings.size() == 1);
    return findings.front();
  }

  void* pinned = nullptr;
  CUdeviceptr device = 0;
};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE_FIXTURE(GraphUses, "reuse of memory that a graph may still read is reported") {
  const CUgraph graph = make_graph();
  SUBCASE("reused by an allocator") {
    sim.host_reuses(pinned, kBytes);
    const std::string found = finding();
    CHECK(has(found, "race: the host hands 64 B"));
    CHECK(has(found, "while graph"));
    CHECK(has(found, "reads 64 B"));
  }
  SUBCASE("recycled by the program") {
    sim.host_recycles(pinned, kBytes);
    CHECK(has(finding(), "while graph"));
  }
  SUBCASE("the last byte alone") {
    sim.host_reuses(static_cast<std::byte*>(pinned) + kBytes - 1, 1);
    CHECK(has(finding(), "while graph"));
  }
  SUBCASE("other memory is not reported") {
    void* other = nullptr;
    OK(CU(cuMemHostAlloc)(&other, kBytes, 0));
    sim.host_reuses(other, kBytes);
    OK(CU(cuMemFreeHost)(other));
  }
  OK(CU(cuGraphDestroy)(graph));
  sim.host_reuses(pinned, kBytes);
  sim.host_recycles(pinned, kBytes);
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(GraphUses, "managed memory that a graph may still read is reported if reused") {
  CUdeviceptr managed = 0;
  OK(CU(cuMemAllocManaged)(&managed, kBytes, CU_MEM_ATTACH_GLOBAL));
  const CUgraphExec exec = make_executable(
      capture([&](CUstream stream) { OK(CU(cuMemcpyAsync)(device, managed, kBytes, stream)); }));
  sim.host_reuses(reinterpret_cast<void*>(managed), kBytes);
  CHECK(has(finding(), "while executable graph"));
  OK(CU(cuGraphExecDestroy)(exec));
  sim.host_reuses(reinterpret_cast<void*>(managed), kBytes);
  CHECK(sim.take_findings().empty());
  OK(CU(cuMemFree)(managed));
}

TEST_CASE_FIXTURE(GraphUses, "an executable graph that outlives its graph still uses the memory") {
  const CUgraphExec exec = make_executable(make_graph());
  sim.host_reuses(pinned, kBytes);
  CHECK(has(finding(), "while executable graph"));
  OK(CU(cuGraphExecDestroy)(exec));
  sim.host_reuses(pinned, kBytes);
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(GraphUses, "memory may be freed before a graph that is not launched again") {
  const CUgraphExec exec = make_executable(make_graph());
  OK(CU(cuMemFreeHost)(pinned));
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(sim.take_findings().empty());
}

// The same address may be mapped again, and then nothing faults.
TEST_CASE_FIXTURE(GraphUses, "a launch of a graph with freed memory is refused") {
  alignas(4096) static unsigned char own[4096];
  const auto address = reinterpret_cast<CUdeviceptr>(&own);
  OK(CU(cuMemHostRegister)(own, sizeof own, 0));
  const CUgraph graph =
      capture([&](CUstream stream) { OK(CU(cuMemcpyAsync)(device, address, kBytes, stream)); });
  CUgraphExec before = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&before, graph, 0));
  OK(CU(cuMemHostUnregister)(own));
  OK(CU(cuMemHostRegister)(own, sizeof own, 0));
  CHECK(sim.take_findings().empty());
  const CUgraphExec after = make_executable(graph);
  const CUstream stream = make_stream();
  for (const CUgraphExec exec : {before, after}) {
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    const std::string found = finding();
    CHECK(has(found, "cuGraphLaunch"));
    CHECK(has(found, "launches executable graph"));
    CHECK(has(found, "cuMemHostUnregister"));
    OK(CU(cuGraphExecDestroy)(exec));
  }
  const CUgraph fresh =
      capture([&](CUstream to) { OK(CU(cuMemcpyAsync)(device, address, kBytes, to)); });
  const CUgraphExec exec = make_executable(fresh);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuMemHostUnregister)(own));
  CHECK(sim.take_findings().empty());
}

// "the references are retained until the execution is completed"
TEST_CASE_FIXTURE(GraphUses, "a user object is destroyed after the launches of its graph") {
  std::atomic<bool> is_called = false;
  const auto note = [](void* called) { *static_cast<std::atomic<bool>*>(called) = true; };
  CUuserObject object = nullptr;
  OK(CU(cuUserObjectCreate)(&object, &is_called, note, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  const CUgraph graph = make_graph();
  OK(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = make_executable(graph);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuGraphExecDestroy)(exec));
  sim.run_all();
  while (!is_called) {
    OK(CU(cuStreamQuery)(make_stream()));
    std::this_thread::yield();
  }
  sim.host_writes(pinned, kBytes);  // no race: the thread that told of it knows
  CHECK(sim.take_findings().empty());
}

}  // namespace graph_uses_test
