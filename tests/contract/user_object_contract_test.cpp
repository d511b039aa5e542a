// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Programming Guide, "CUDA User Objects"; CUDA Driver API, cuUserObjectCreate,
// cuGraphRetainUserObject. "There is not currently a mechanism to wait on user object destructors
// via a CUDA API", so a case waits for a flag, and that a destructor is not called yet it can only
// see where the driver would have called it at once.
#include <atomic>
#include <thread>

#include "contract/graph_contract.hpp"

namespace user_object_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Destroyed {
  static void note(void* self) { static_cast<Destroyed*>(self)->is_called = true; }
  void wait() const {
    while (!is_called) std::this_thread::yield();
  }
  std::atomic<bool> is_called = false;
};

struct UserObjectFixture : GraphContractFixture {
  UserObjectFixture() {
    const bool has = driver.has(DriverCall::user_object_create) &&
                     driver.has(DriverCall::graph_retain_user_object);
    if (available && !has) MESSAGE("skipped: needs user objects");
    available = available && has;
  }

  /// With one reference.
  [[nodiscard]] CUuserObject make(Destroyed& destroyed) const {
    CUuserObject object = nullptr;
    driver.user_object_create(&object, static_cast<void*>(&destroyed),
                              static_cast<CUhostFn>(&Destroyed::note), 1U,
                              unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC});
    return object;
  }
  /// A graph that has the only reference.
  [[nodiscard]] CUgraph make_graph(Destroyed& destroyed) const {
    CUgraph graph = nullptr;
    driver.graph_create(&graph, 0U);
    driver.graph_retain_user_object(graph, make(destroyed), 1U,
                                    unsigned{CU_GRAPH_USER_OBJECT_MOVE});
    return graph;
  }
};

}  // namespace

// cuUserObjectCreate: "The destructor [...] will be called [...] when the reference count reaches
// zero".
TEST_CASE_FIXTURE(UserObjectFixture, "a user object is destroyed with its last reference") {
  if (!available) return;
  Destroyed destroyed;
  const CUuserObject object = make(destroyed);
  CHECK_FALSE(destroyed.is_called);
  CHECK(driver.try_user_object_release(object, 1U) == CUDA_SUCCESS);
  destroyed.wait();
}

// "CU_GRAPH_USER_OBJECT_MOVE: Transfer references from the caller rather than creating new
// references."
TEST_CASE_FIXTURE(UserObjectFixture, "a graph owns the references that are moved into it") {
  if (!available) return;
  Destroyed destroyed;
  const CUgraph graph = make_graph(destroyed);
  CHECK_FALSE(destroyed.is_called);
  CHECK(driver.try_graph_destroy(graph) == CUDA_SUCCESS);
  destroyed.wait();
}

// "An instantiated cudaGraphExec_t retains a copy of every reference in the source cudaGraph_t."
TEST_CASE_FIXTURE(UserObjectFixture, "executable graphs have references of their own") {
  if (!available) return;
  Destroyed destroyed;
  const CUgraph graph = make_graph(destroyed);
  CUgraphExec first = nullptr;
  driver.graph_instantiate(&first, graph, 0ULL);
  const CUgraphExec second = make_executable(graph);
  driver.graph_exec_destroy(first);
  CHECK_FALSE(destroyed.is_called);
  const CUstream stream = make_stream();
  CHECK(driver.try_graph_launch(second, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK_FALSE(destroyed.is_called);
  driver.graph_exec_destroy(second);
  destroyed.wait();
  driver.stream_destroy(stream);
}

// "When a cudaGraphExec_t is destroyed without being synchronized, the references are retained
// until the execution is completed."
TEST_CASE_FIXTURE(UserObjectFixture, "an executable graph that runs keeps its references") {
  if (!available) return;
  Destroyed destroyed;
  const CUgraphExec exec = make_executable(make_graph(destroyed));
  const CUstream stream = make_stream();
  Gate gate(driver, stream);
  CHECK(driver.try_graph_launch(exec, stream) == CUDA_SUCCESS);
  CHECK(driver.try_graph_exec_destroy(exec) == CUDA_SUCCESS);
  CHECK_FALSE(destroyed.is_called);
  gate.open();
  driver.stream_synchronize(stream);
  while (!destroyed.is_called) {
    driver.try_stream_query(stream);
    std::this_thread::yield();
  }
  driver.stream_destroy(stream);
}

// cuStreamGetCaptureInfo: "All operations other than destroy and node removal are permitted on the
// graph while the capture sequence is in progress."
TEST_CASE_FIXTURE(UserObjectFixture, "the graph of a capture in progress takes references") {
  if (!available) return;
  Destroyed destroyed;
  const CUstream stream = make_stream();
  begin(stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  driver.stream_get_capture_info(stream, &status, &id, &graph, nullptr, nullptr, nullptr);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(id != 0);
  driver.graph_retain_user_object(graph, make(destroyed), 1U, unsigned{CU_GRAPH_USER_OBJECT_MOVE});
  const CUgraph captured = end(stream);
  CHECK(captured == graph);
  CHECK_FALSE(destroyed.is_called);
  driver.graph_destroy(captured);
  destroyed.wait();
  driver.stream_destroy(stream);
}

// "id_out: [...] the capture sequence ID, which is assumed to be unique over the lifetime of the
// process."
TEST_CASE_FIXTURE(UserObjectFixture, "each capture has a unique ID") {
  if (!available) return;
  const CUstream stream = make_stream();
  cuuint64_t ids[2] = {0, 0};
  for (cuuint64_t& id : ids) {
    begin(stream);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    driver.stream_get_capture_info(stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
    driver.graph_destroy(end(stream));
  }
  CHECK(ids[0] != ids[1]);
  driver.stream_destroy(stream);
}

// "A cloned cudaGraph_t retains a copy of every reference owned by the source cudaGraph_t."
TEST_CASE_FIXTURE(UserObjectFixture, "a clone of a graph has references of its own") {
  const auto clone = CONTRACT_FUNCTION(cuGraphClone, 10000);
  if (clone == nullptr) MESSAGE("skipped: needs cuGraphClone");
  if (!available || clone == nullptr) return;
  Destroyed destroyed;
  const CUgraph graph = make_graph(destroyed);
  CUgraph cloned = nullptr;
  REQUIRE(clone(&cloned, graph) == CUDA_SUCCESS);
  driver.graph_destroy(graph);
  CHECK_FALSE(destroyed.is_called);
  driver.graph_destroy(cloned);
  destroyed.wait();
}

// "User objects retained by graphs in child graph nodes are associated to the child graphs, not the
// parents"; cuGraphAddChildGraphNode: the child graph "is cloned in this call".
TEST_CASE_FIXTURE(UserObjectFixture, "a child graph keeps its references in the parent") {
  const auto add_child = CONTRACT_FUNCTION(cuGraphAddChildGraphNode, 10000);
  if (add_child == nullptr) MESSAGE("skipped: needs cuGraphAddChildGraphNode");
  if (!available || add_child == nullptr) return;
  Destroyed destroyed;
  const CUgraph child = make_graph(destroyed);
  CUgraph parent = nullptr;
  driver.graph_create(&parent, 0U);
  CUgraphNode node = nullptr;
  REQUIRE(add_child(&node, parent, nullptr, 0, child) == CUDA_SUCCESS);
  driver.graph_destroy(child);
  CHECK_FALSE(destroyed.is_called);
  const CUgraphExec exec = make_executable(parent);
  CHECK_FALSE(destroyed.is_called);
  driver.graph_exec_destroy(exec);
  destroyed.wait();
}

}  // namespace user_object_contract_test
