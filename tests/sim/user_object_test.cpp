// SPDX-License-Identifier: Apache-2.0
// User objects: objects of the program that live as long as graphs.
#include <atomic>
#include <chrono>
#include <thread>

#include "sim/graph_fixture.hpp"

namespace user_object_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Destroyed {
  static void note(void* self) {
    auto& destroyed = *static_cast<Destroyed*>(self);
    destroyed.answer = CU(cuCtxSynchronize)();
    ++destroyed.times;
  }
  /// It is called by another thread.
  void wait() const {
    while (times.load() == 0) std::this_thread::yield();
  }
  std::atomic<int> times = 0;
  std::atomic<CUresult> answer = CUDA_SUCCESS;
};

CUuserObject make_object(Destroyed& destroyed, unsigned references = 1) {
  CUuserObject object = nullptr;
  OK(CU(cuUserObjectCreate)(&object, &destroyed, &Destroyed::note, references,
                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  return object;
}

CUgraph make_empty_graph() {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  return graph;
}

CUgraphExec make_exec(CUgraph graph) {
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  return exec;
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture,
                  "the destructor is called with the last reference, and only then") {
  Destroyed destroyed;
  const CUuserObject object = make_object(destroyed, 2);
  OK(CU(cuUserObjectRetain)(object, 3));
  OK(CU(cuUserObjectRelease)(object, 4));
  CHECK(sim.live().user_objects == 1);
  CHECK(CU(cuUserObjectRelease)(object, 2) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuUserObjectRelease)(object, 1));
  CHECK(sim.live().user_objects == 0);
  destroyed.wait();
  CHECK(destroyed.answer == CUDA_ERROR_NOT_PERMITTED);  // it must not call the driver
  CHECK(CU(cuUserObjectRelease)(object, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph that does not move references adds its own") {
  Destroyed destroyed;
  const CUuserObject object = make_object(destroyed);
  const CUgraph graph = make_empty_graph();
  OK(CU(cuGraphRetainUserObject)(graph, object, 2, 0));
  OK(CU(cuUserObjectRelease)(object, 1));
  OK(CU(cuGraphReleaseUserObject)(graph, object, 1));
  CHECK(CU(cuGraphReleaseUserObject)(graph, object, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().user_objects == 1);
  OK(CU(cuGraphReleaseUserObject)(graph, object, 1));
  CHECK(sim.live().user_objects == 0);
  destroyed.wait();
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a destroyed executable graph keeps its references until its launch completes") {
  Destroyed destroyed;
  const CUgraph graph = make_empty_graph();
  OK(CU(cuGraphRetainUserObject)(graph, make_object(destroyed), 1, CU_GRAPH_USER_OBJECT_MOVE));
  const CUgraphExec exec = make_exec(graph);
  OK(CU(cuGraphDestroy)(graph));
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(make_memory(1), 0, 1, stream));
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(sim.live().user_objects == 1);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.live().user_objects == 0);
  destroyed.wait();
}

TEST_CASE_FIXTURE(ManualFixture, "a graph being captured can retain user objects") {
  Destroyed destroyed;
  const CUstream stream = make_stream();
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUgraph graph = captured_graph(stream);
  OK(CU(cuGraphRetainUserObject)(graph, make_object(destroyed), 1, CU_GRAPH_USER_OBJECT_MOVE));
  SUBCASE("the capture succeeds") {
    OK(CU(cuStreamEndCapture)(stream, &graph));
    CHECK(sim.live().user_objects == 1);
    OK(CU(cuGraphDestroy)(graph));
  }
  SUBCASE("the capture fails") {
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(CU(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  CHECK(sim.live().user_objects == 0);
  destroyed.wait();
}

TEST_CASE_FIXTURE(ManualFixture, "arguments of user objects are checked") {
  Destroyed destroyed;
  CUuserObject object = nullptr;
  constexpr unsigned flags = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
  const auto create = [&](CUuserObject* out, CUhostFn function, unsigned count, unsigned how) {
    return CU(cuUserObjectCreate)(out, &destroyed, function, count, how);
  };
  CHECK(create(nullptr, &Destroyed::note, 1, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create(&object, nullptr, 1, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create(&object, &Destroyed::note, 0, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create(&object, &Destroyed::note, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  const CUgraph graph = make_empty_graph();
  CHECK(CU(cuGraphRetainUserObject)(graph, nullptr, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  object = make_object(destroyed);
  CHECK(CU(cuGraphRetainUserObject)(nullptr, object, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphRetainUserObject)(graph, object, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphRetainUserObject)(graph, object, 1, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphRetainUserObject)(graph, object, 2, CU_GRAPH_USER_OBJECT_MOVE) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuUserObjectRelease)(object, 1));
  destroyed.wait();
}

}  // namespace user_object_test
