// SPDX-License-Identifier: Apache-2.0
// Allocating while work is captured into a graph, and around captures of others.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "pool/device_memory.hpp"
#include "support/device_bytes.hpp"
#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace capture_test {

using namespace berth;
using namespace berth::test;

namespace {

class CaptureTest : public TappedDevice {
 public:
  explicit CaptureTest(DeviceAllocatorOptions options = {})
      : TappedDevice(config()), memory(context, events, std::move(options)) {}
  ~CaptureTest() { simulator.run_all(); }

  void begin(StreamRef stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    const ContextScope scope(context);
    driver.stream_begin_capture(stream.native(), mode);
  }
  /// Ends a capture, which must be valid, and makes it a graph to launch.
  [[nodiscard]] CUgraphExec end(StreamRef stream) {
    const ContextScope scope(context);
    CUgraph graph = nullptr;
    driver.stream_end_capture(stream.native(), &graph);
    CUgraphExec exec = nullptr;
    driver.graph_instantiate(&exec, graph, 0ULL);
    driver.graph_destroy(graph);
    return exec;
  }
  void launch(CUgraphExec exec, StreamRef stream) {
    const ContextScope scope(context);
    driver.graph_launch(exec, stream.native());
  }
  void destroy(CUgraphExec exec) {
    const ContextScope scope(context);
    driver.graph_exec_destroy(exec);
  }
  void fill(const Allocation& block, unsigned char value, StreamRef stream) {
    const ContextScope scope(context);
    driver.memset_d8_async(CUdeviceptr{std::uintptr_t(block.data())}, value, block.bytes(),
                           stream.native());
  }
  [[nodiscard]] bool holds(const Allocation& block, unsigned char value) const {
    return test::holds(simulator, CUdeviceptr{std::uintptr_t(block.data())}, block.bytes(), value);
  }

  DeviceAllocator memory;

 private:
  static sim::Config config() {
    sim::Config config;
    config.memory = {64_MiB};
    config.progress = sim::Progress::manual;
    return config;
  }
};

/// Runs `test` with memory mapped granule by granule, and with segments of cuMemAlloc.
template <class Test>
void with_each_backing(const Test& test) {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    DeviceAllocatorOptions options;
    options.virtual_memory = virtual_memory;
    test(options);
  }
}

}  // namespace

TEST_CASE("a captured stream uses memory of a pool for graphs") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    const Stream stream = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
    test.begin(stream);
    const Allocation result = pool.allocate(3_MiB, stream);
    {
      const Allocation scratch = pool.allocate(5_MiB, stream);
      test.fill(scratch, 1, stream);
    }
    const Allocation reused = pool.allocate(5_MiB, stream);
    test.fill(reused, 2, stream);
    test.fill(result, 3, stream);
    const CUgraphExec graph = test.end(stream);
    for (int round = 0; round < 2; ++round) {
      test.launch(graph, stream);
      test.simulator.run_all();
      CHECK(test.holds(result, 3));
      CHECK(test.holds(reused, 2));
    }
    test.destroy(graph);
    pool.validate();
  });
}

TEST_CASE("a scope on a captured stream routes its requests, and only those, to its pool") {
  CaptureTest test;
  const Stream captured = test.stream();
  const Stream other = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
  { const Allocation warm = test.memory.allocate(1_MiB, captured); }
  CUgraphExec graph = nullptr;
  {
    const PoolScope scope = PoolScope::on_stream(pool, captured);
    test.begin(captured);
    const Allocation block = test.memory.allocate(1_MiB, captured);
    CHECK(pool.owns(block.data()));
    const Allocation beside = test.memory.allocate(30_MiB, other);  // grows in mid-capture
    CHECK_FALSE(pool.owns(beside.data()));
    graph = test.end(captured);
  }
  test.destroy(graph);
}

TEST_CASE(
    "memory of a graph stays while its pool is open, even if other pools are short of memory") {
  CaptureTest test;
  const Stream stream = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
  test.begin(stream);
  std::uintptr_t address = 0;
  {
    const Allocation block = pool->allocate(40_MiB, stream);
    test.fill(block, 7, stream);
    address = std::uintptr_t(block.data());
  }
  const CUgraphExec graph = test.end(stream);
  CHECK(pool->trim() == 0);
  message_of<OutOfMemory>([&] { return test.memory.allocate(40_MiB, stream); });
  test.launch(graph, stream);
  test.simulator.run_all();
  CHECK(holds(test.simulator, CUdeviceptr{address}, 40_MiB, 7));
  test.destroy(graph);
  pool.reset();
  CHECK(test.memory.allocate(40_MiB, stream).data() != nullptr);
}

TEST_CASE("memory of a graph stays after its stream has gone, however short its own pool is") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    std::optional<Stream> captured(test.stream());
    const Stream other = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
    test.begin(*captured);
    {
      const Allocation scratch = pool.allocate(30_MiB, *captured);
      test.fill(scratch, 1, *captured);
    }
    const CUgraphExec graph = test.end(*captured);
    captured.reset();
    const Allocation live = pool.allocate(4_MiB, other);
    message_of<OutOfMemory>([&] { return pool.allocate(62_MiB, other); });
    CHECK(pool.counters().segments_released == 0);
    test.launch(graph, other);
    test.simulator.run_all();
    test.destroy(graph);
  });
}

TEST_CASE("closing a pool waits for its graphs") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    const Stream captured = test.stream();
    const Stream next = test.stream();
    std::optional<MemoryPool> pool(test.memory.create_pool({.name = "graph", .for_graphs = true}));
    test.begin(captured);
    {
      const Allocation scratch = pool->allocate(30_MiB, captured);
      test.fill(scratch, 1, captured);
    }
    const CUgraphExec graph = test.end(captured);
    { const Allocation passed_on = pool->allocate(30_MiB, next); }
    test.launch(graph, captured);
    pool.reset();
    CHECK(captured.ref().is_done());
    test.destroy(graph);
  });
}

TEST_CASE("a captured stream takes no memory behind a wait for uncaptured work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    const Stream captured = test.stream();
    const Stream busy = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
    {
      const Allocation cached = pool.allocate(40_MiB, busy);
      test.fill(cached, 1, busy);
    }
    test.begin(captured);
    message_of<OutOfMemory>([&] { return pool.allocate(40_MiB, captured); });
    test.destroy(test.end(captured));
    CHECK(pool.counters().stream_waits_inserted == 0);
  });
}

TEST_CASE("graphs that are launched one after the other share a pool") {
  CaptureTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "graphs", .for_graphs = true});
  std::vector<CUgraphExec> graphs;
  std::vector<Allocation> results;
  for (unsigned char value = 1; value <= 3; ++value) {
    test.begin(stream);
    results.push_back(pool.allocate(2_MiB, stream));
    const Allocation scratch = pool.allocate(20_MiB, stream);
    test.fill(scratch, 99, stream);
    test.fill(results.back(), value, stream);
    graphs.push_back(test.end(stream));
  }
  CHECK(pool.counters().bytes_reserved.current <= 28_MiB);
  for (const CUgraphExec graph : graphs) test.launch(graph, stream);
  test.simulator.run_all();
  for (unsigned char value = 1; value <= 3; ++value) CHECK(test.holds(results[value - 1u], value));
  for (const CUgraphExec graph : graphs) test.destroy(graph);
}

TEST_CASE("without a pool for graphs, growth for a captured stream is refused") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    const Stream stream = test.stream();
    test.begin(stream);
    const std::string message =
        message_of<InvalidArgument>([&] { return test.memory.allocate(1_MiB, stream); });
    CHECK(contains(message, "for_graphs"));
    test.memory.validate();
    test.destroy(test.end(stream));
    CHECK(test.memory.allocate(1_MiB, stream).data() != nullptr);
  });
}

TEST_CASE("a run through the whole ladder on another stream breaks no capture") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    CaptureTest test(options);
    const Stream captured = test.stream();
    const Stream other = test.stream();
    const Stream user = test.stream();
    {
      const Allocation pending = test.memory.allocate(4_MiB, other);
      pending.record_stream(user);
      test.log.submit(user, "use");
    }
    { const Allocation cached = test.memory.allocate(20_MiB, captured); }
    test.begin(captured);
    CHECK(test.memory.allocate(36_MiB, other).data() != nullptr);
    message_of<OutOfMemory>([&] { return test.memory.allocate(60_MiB, other); });
    test.memory.trim();
    test.destroy(test.end(captured));
    CHECK(test.memory.allocate(60_MiB, other).data() != nullptr);  // the capture's was out of reach
  });
}

TEST_CASE("a block that a captured stream uses is free for others after the capture, not before") {
  CaptureTest test;
  const Stream captured = test.stream();
  const Stream own = test.stream();
  Allocation block = test.memory.allocate(4_MiB, own);
  test.begin(captured);
  block.record_stream(captured);
  test.fill(block, 1, captured);
  block.reset();
  CHECK(test.memory.counters().blocks_pending.current == 1);
  const Allocation beside = test.memory.allocate(8_MiB, own);  // polls
  CHECK(test.memory.counters().blocks_pending.current == 1);
  test.destroy(test.end(captured));
  test.memory.trim();  // marks the end of what the stream has now
  test.simulator.run_all();
  test.memory.trim();
  CHECK(test.memory.counters().blocks_pending.current == 0);
}

TEST_CASE("memory of a stream destroyed during a capture stays reserved, which is reported") {
  CaptureTest test;
  {
    const Stream captured = test.stream();
    { const Allocation cached = test.memory.allocate(20_MiB, captured); }
    test.begin(captured);
  }
  CHECK(test.reports.all().size() == 1);
  const Stream other = test.stream();
  const Allocation most = test.memory.allocate(44_MiB, other);
  message_of<OutOfMemory>([&] { return test.memory.allocate(20_MiB, other); });
  test.memory.validate();
}

TEST_CASE("a broken capture leaves the pool as usable as before") {
  CaptureTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
  test.begin(stream);
  Allocation block = pool.allocate(3_MiB, stream);
  {
    const ContextScope scope(test.context);
    CHECK(test.driver.try_stream_query(stream.ref().native()) != CUDA_SUCCESS);  // breaks it
    CUgraph graph = nullptr;
    CHECK(test.driver.try_stream_end_capture(stream.ref().native(), &graph) ==
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  block.reset();
  test.begin(stream);
  block = pool.allocate(3_MiB, stream);
  test.fill(block, 4, stream);
  const CUgraphExec graph = test.end(stream);
  test.launch(graph, stream);
  test.simulator.run_all();
  CHECK(test.holds(block, 4));
  test.destroy(graph);
}

}  // namespace capture_test
