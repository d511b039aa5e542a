// SPDX-License-Identifier: Apache-2.0
// Handles for work that is captured into a graph.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "library/library_fixture.hpp"
#include "support/allocator_checks.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"

namespace handle_capture_test {

using namespace berth;
using namespace berth::test;

namespace {

struct CaptureTest : LibraryTest {
  CaptureTest() : LibraryTest(manual_progress()) {}

  [[nodiscard]] MemoryPool graph_pool() {
    return memory.create_pool({.name = "graph", .for_graphs = true});
  }

  DeviceAllocator& memory = runtime->memory(kDevice);
};

}  // namespace

TEST_CASE(
    "the workspace of a graph comes from its pool, and is not reused while the graph may run") {
  CaptureTest test;
  const Stream captured = test.stream();
  const Stream other = test.stream();
  FakePool pool(*test.runtime, test.library.options_with_workspace(4_MiB));
  const MemoryPool graph_pool = test.graph_pool();
  void* ordinary = nullptr;
  {
    const FakeLease lease = pool.acquire(captured);
    ordinary = lease->workspace;
    test.submit(lease);
  }
  std::optional<CapturedGraph> graph;
  void* of_graph = nullptr;
  {
    const PoolScope scope = PoolScope::on_stream(graph_pool, captured);
    begin_capture(captured);
    {
      const FakeLease lease = pool.acquire(captured);
      of_graph = lease->workspace;
      CHECK(of_graph != ordinary);
      CHECK(graph_pool.owns(of_graph));
      CHECK(test.memory.is_for_graphs(of_graph));
      CHECK_FALSE(test.memory.is_for_graphs(ordinary));
      test.submit(lease);
    }
    {
      const FakeLease lease = pool.acquire(captured);  // in the order of the stream
      CHECK(lease->workspace == of_graph);
      test.submit(lease);
    }
    graph.emplace(captured);
  }
  for (int round = 0; round < 3; ++round) {
    graph->launch();
    const FakeLease leases[] = {pool.acquire(other), pool.acquire(captured)};
    for (const FakeLease& lease : leases) {
      CHECK_FALSE(overlap(lease->workspace, 4_MiB, of_graph, 4_MiB));
      test.submit(lease);
    }
    const Allocation block = test.memory.allocate(4_MiB, other);
    test.submit_write(other, block.data(), block.bytes());
    pool.trim();
  }
  CHECK_FALSE(test.races());
  test.memory.validate();
}

TEST_CASE("after a capture a handle uses its ordinary workspace again") {
  CaptureTest test;
  const Stream stream = test.stream();
  FakePool pool(*test.runtime, test.library.options_with_workspace(4_MiB));
  const MemoryPool graph_pool = test.graph_pool();
  void* const ordinary = pool.acquire(stream)->workspace;
  const PoolScope scope = PoolScope::on_stream(graph_pool, stream);
  begin_capture(stream);
  { const FakeLease lease = pool.acquire(stream); }
  const CapturedGraph graph(stream);
  const FakeLease lease = pool.acquire(stream);
  CHECK(lease->workspace == ordinary);
  CHECK(lease->stream == stream.ref());
  CHECK(test.library.creates == 1);
  CHECK(test.library.binds == 3);
}

TEST_CASE("a workspace for captured work is refused without a pool for graphs") {
  CaptureTest test;
  const Stream stream = test.stream();
  FakePool pool(*test.runtime, test.library.options_with_workspace(4_MiB));
  MemoryPool plain = test.memory.create_pool({.name = "plain"});
  SUBCASE("memory would have to be obtained") {}
  SUBCASE("cached memory is available") {
    const Allocation cached = test.memory.allocate(4_MiB, stream);
  }
  std::optional<PoolScope> scope;
  SUBCASE("the scope has a pool that is not for graphs") {
    { const Allocation cached = plain.allocate(4_MiB, stream); }
    scope.emplace(PoolScope::on_stream(plain, stream));
  }
  begin_capture(stream);
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.acquire(stream); }), "for_graphs"));
  CHECK(capture_status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CapturedGraph graph(stream);
  CHECK(pool.acquire(stream)->workspace != nullptr);
  CHECK(test.library.creates == 1);  // what was made for the capture serves afterwards
}

TEST_CASE("a handle that keeps device memory is refused on a captured stream") {
  CaptureTest test;
  const Stream stream = test.stream();
  HandlePoolOptions<FakeHandle> options = test.library.options();
  options.keeps_device_memory = true;
  FakePool pool(*test.runtime, std::move(options));
  begin_capture(stream);
  CHECK(contains(message_of<StreamCaptured>([&] { return pool.acquire(stream); }),
                 "fake handles of cuda:0 keep device memory"));
  const CapturedGraph graph(stream);
  CHECK(pool.acquire(stream)->stream == stream.ref());
  CHECK(test.library.creates == 1);
}

TEST_CASE(
    "a handle that keeps device memory is destroyed if its stream is captured at its return") {
  CaptureTest test;
  const Stream stream = test.stream();
  HandlePoolOptions<FakeHandle> options = test.library.options();
  options.keeps_device_memory = true;
  FakePool pool(*test.runtime, std::move(options));
  std::optional<FakeLease> lease = pool.acquire(stream);
  begin_capture(stream);
  lease.reset();
  CHECK(capture_status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(test.library.live() == 0);
  const CapturedGraph graph(stream);
}

TEST_CASE(
    "a handle can be made while work is captured, by functions that would break the capture") {
  CaptureTest test;
  const Stream captured = test.stream();
  const Stream other = test.stream();
  FakePool pool(*test.runtime, test.library.options());
  test.library.on_create = test.library.on_destroy = [] {
    CUdeviceptr memory = 0;
    CHECK(sim::berth_sim_cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
    CHECK(sim::berth_sim_cuMemFree(memory) == CUDA_SUCCESS);
  };
  begin_capture(captured);
  {
    const FakeLease leases[] = {pool.acquire(captured), pool.acquire(other)};
    CHECK(leases[0]->stream == captured.ref());
  }
  CHECK(pool.trim() == 2);
  CHECK(capture_status(captured) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CapturedGraph graph(captured);
}

TEST_CASE("the legacy default stream gets no handle while a stream that waits for it is captured") {
  CaptureTest test;
  const Stream waits = test.runtime->create_stream(kDevice, {.blocks_with_legacy_default = true});
  FakePool pool(*test.runtime, test.library.options_with_workspace(512));
  begin_capture(waits);
  message_of<StreamCaptured>([&] { return pool.acquire(test.runtime->default_stream(kDevice)); });
  CHECK(capture_status(waits) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CapturedGraph graph(waits);
  CHECK(test.library.creates == 0);
}

}  // namespace handle_capture_test
