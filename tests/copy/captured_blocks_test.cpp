// SPDX-License-Identifier: Apache-2.0
// Pinned blocks that captured copies name: they are reused when they are free and every graph and
// executable graph that may use them is gone, in whatever order that happens.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/allocator.h"

#include "capi/capi_allocator.hpp"
#include "copy/copy_fixture.hpp"
#include "device/device_context.hpp"
#include "support/captured_graph.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace captured_blocks_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 10'000;

RuntimeOptions simulated() {
  RuntimeOptions options;
  options.driver = "sim";
  return options;
}

sim::Config with_faults(const std::string& faults) {
  sim::Config config;
  config.faults = sim::FaultPlan::parse(faults);
  return config;
}

sim::Config random_order(std::uint64_t seed) {
  sim::Config config;
  config.progress = sim::Progress::random;
  config.seed = seed;
  return config;
}

/// Graphs that the test destroys itself.
struct CapturedBlocks : CopyTest {
  explicit CapturedBlocks(const sim::Config& config = {}) : CopyTest(config) {}

  [[nodiscard]] PinnedAllocator& pinned() { return runtime->pinned_memory(); }
  [[nodiscard]] std::uint64_t in_graphs() { return pinned().counters().blocks_in_graphs.current; }
  /// The driver tells berth on a thread of its own.
  static void wait_until_none_is_in_graphs(const PinnedAllocator& memory) {
    while (memory.counters().blocks_in_graphs.current > 0) std::this_thread::yield();
  }
  /// Whether the next request may get the memory at `data`.
  [[nodiscard]] static bool is_reusable(const PinnedAllocator& memory, const void* data) {
    static_cast<void>(memory.counters());  // takes notice of graphs that are gone
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    for (const SegmentInfo& segment : memory.snapshot().segments) {
      for (const BlockInfo& block : segment.blocks) {
        if (address - block.address < block.bytes) return block.state == BlockState::free;
      }
    }
    FAIL("no memory there");
    return false;
  }
  [[nodiscard]] bool is_reusable(const void* data) { return is_reusable(pinned(), data); }
  /// Whether that memory comes back before the allocator asks the driver for more.
  [[nodiscard]] bool comes_back(const void* data) {
    std::vector<Allocation> blocks;
    const std::uint64_t reserved = pinned().counters().bytes_reserved.current;
    while (pinned().counters().bytes_reserved.current == reserved) {
      blocks.push_back(pinned().allocate(kBytes));
      if (blocks.back().data() == data) return true;
    }
    return false;
  }

  [[nodiscard]] static CUgraph end_capture(StreamRef stream) {
    const StreamGuard guard(stream);
    CUgraph graph = nullptr;
    REQUIRE(sim::berth_sim_cuStreamEndCapture(stream.native(), &graph) == CUDA_SUCCESS);
    return graph;
  }
  [[nodiscard]] CUgraphExec instantiate(CUgraph graph) const {
    const DeviceGuard guard(runtime->devices(), Device::cuda(0));
    CUgraphExec exec = nullptr;
    REQUIRE(sim::berth_sim_cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
  }
  static void launch(CUgraphExec exec, StreamRef stream) {
    const StreamGuard guard(stream);
    REQUIRE(sim::berth_sim_cuGraphLaunch(exec, stream.native()) == CUDA_SUCCESS);
  }
  static void destroy(CUgraph graph) {
    REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
  }
  static void destroy(CUgraphExec exec) {
    REQUIRE(sim::berth_sim_cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  }
};

void fill(const Allocation& block, unsigned char value) {
  std::fill_n(static_cast<unsigned char*>(block.data()), block.bytes(), value);
}

}  // namespace

TEST_CASE("a replayed graph reads its own pinned source, which no other block reuses") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Allocation source = test.pinned().allocate(kBytes);
  void* const freed = source.data();
  fill(source, 0x11);
  begin_capture(stream);
  test.copier.copy_async(device.data(), source.data(), kBytes, stream);
  std::optional<CapturedGraph> graph(std::in_place, stream);
  source.reset();
  stream.ref().sync();
  CHECK_FALSE(test.is_reusable(freed));
  CHECK_FALSE(test.comes_back(freed));
  CHECK(test.pinned().counters().blocks_pending.current == 1);
  CHECK(test.in_graphs() == 1);
  test.pinned().validate();
  std::vector<Allocation> others;
  for (int count = 0; count < 8; ++count) {
    others.push_back(test.pinned().allocate(kBytes));
    fill(others.back(), 0xEE);
  }
  graph->launch();
  stream.ref().sync();
  CHECK((device.read() == Bytes(kBytes, 0x11)));
  others.clear();
  graph.reset();
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CHECK(test.pinned().counters().blocks_pending.current == 0);
  test.pinned().validate();
  CHECK(test.comes_back(freed));
  CHECK(test.simulator.take_findings().empty());
}

TEST_CASE("a captured block comes free with the last of its owner, its graph and its executables") {
  enum class Step { free, destroy_graph, destroy_first, destroy_second };
  std::array steps{Step::free, Step::destroy_graph, Step::destroy_first, Step::destroy_second};
  do {
    for (const bool is_target : {false, true}) {
      CapturedBlocks test;
      const Stream stream = test.stream();
      Buffer device(test, Kind::device, kBytes);
      Allocation block = test.pinned().allocate(kBytes);
      void* const data = block.data();
      begin_capture(stream);
      if (is_target)
        test.copier.copy_async(data, device.data(), kBytes, stream);
      else
        test.copier.copy_async(device.data(), data, kBytes, stream);
      const CUgraph graph = CapturedBlocks::end_capture(stream);
      const CUgraphExec first = test.instantiate(graph);
      const CUgraphExec second = test.instantiate(graph);
      for (const Step step : steps) {
        CHECK_FALSE(test.is_reusable(data));
        CapturedBlocks::launch(first, stream);
        if (step == Step::free) block.reset();
        if (step == Step::destroy_graph) CapturedBlocks::destroy(graph);
        if (step == Step::destroy_first) break;
        if (step == Step::destroy_second) CapturedBlocks::destroy(second);
      }
      // From the first executable on, which could not be launched any more.
      for (auto step = std::ranges::find(steps, Step::destroy_first); step != steps.end(); ++step) {
        CHECK_FALSE(test.is_reusable(data));
        if (*step == Step::free) block.reset();
        if (*step == Step::destroy_graph) CapturedBlocks::destroy(graph);
        if (*step == Step::destroy_first) CapturedBlocks::destroy(first);
        if (*step == Step::destroy_second) CapturedBlocks::destroy(second);
      }
      stream.ref().sync();
      CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
      CHECK(test.is_reusable(data));
      test.pinned().validate();
      CHECK(test.simulator.take_findings().empty());
    }
  } while (std::ranges::next_permutation(steps).found);
}

TEST_CASE("a graph holds a block once, however many copies it makes of it") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Allocation block = test.pinned().allocate(kBytes);
  begin_capture(stream);
  for (int count = 0; count < 10; ++count)
    test.copier.copy_async(device.data(), block.data(), kBytes, stream);
  CHECK(test.simulator.calls("cuUserObjectCreate") == 1);
  const CUgraph first = CapturedBlocks::end_capture(stream);
  begin_capture(stream);
  test.copier.copy_async(device.data(), block.data(), kBytes, stream);
  CHECK(test.simulator.calls("cuUserObjectCreate") == 2);
  const CUgraph second = CapturedBlocks::end_capture(stream);
  CHECK(test.in_graphs() == 1);
  CapturedBlocks::destroy(first);
  void* const data = block.data();
  block.reset();
  CHECK_FALSE(test.is_reusable(data));
  CapturedBlocks::destroy(second);
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CHECK(test.is_reusable(data));
}

TEST_CASE("a captured batch holds every block, of this Runtime and of another") {
  CapturedBlocks test;
  Runtime other(simulated());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 4 * kBytes);
  std::vector<void*> freed;
  begin_capture(stream);
  {
    std::vector<Allocation> blocks;
    std::vector<CopyRange> ranges;
    for (std::size_t part = 0; part < 4; ++part) {
      PinnedAllocator& memory = part < 2 ? test.pinned() : other.pinned_memory();
      blocks.push_back(memory.allocate(kBytes));
      freed.push_back(blocks.back().data());
      ranges.push_back({device.data() + part * kBytes, blocks.back().data(), kBytes});
    }
    test.copier.start_batch(ranges, stream).detach();
  }
  const CUgraph graph = CapturedBlocks::end_capture(stream);
  stream.ref().sync();
  CHECK(test.in_graphs() == 2);
  CHECK(other.pinned_memory().counters().blocks_in_graphs.current == 2);
  for (std::size_t part = 0; part < 4; ++part)
    CHECK_FALSE(
        CapturedBlocks::is_reusable(part < 2 ? test.pinned() : other.pinned_memory(), freed[part]));
  CapturedBlocks::destroy(graph);
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CapturedBlocks::wait_until_none_is_in_graphs(other.pinned_memory());
  for (std::size_t part = 0; part < 4; ++part)
    CHECK(
        CapturedBlocks::is_reusable(part < 2 ? test.pinned() : other.pinned_memory(), freed[part]));
  CHECK(test.simulator.take_findings().empty());
}

TEST_CASE("an invalidated capture releases its blocks") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Allocation block = test.pinned().allocate(kBytes);
  void* const data = block.data();
  begin_capture(stream);
  test.copier.copy_async(device.data(), data, kBytes, stream);
  {
    const StreamGuard guard(stream);
    CHECK(sim::berth_sim_cuStreamSynchronize(stream.ref().native()) ==
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  block.reset();
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CHECK(test.is_reusable(data));
}

TEST_CASE("a Runtime destroyed before a graph that uses its memory reports it") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Reports reports;
  CUgraph graph = nullptr;
  {
    RuntimeOptions options = simulated();
    options.report = reports.sink();
    Runtime ending(options);
    Allocation block = ending.pinned_memory().allocate(kBytes);
    begin_capture(stream);
    test.copier.copy_async(device.data(), block.data(), kBytes, stream);
    graph = CapturedBlocks::end_capture(stream);
  }
  const bool is_reported = std::ranges::any_of(reports.all(), [](const Report& report) {
    return report.severity == Severity::warning && contains(report.message, "is freed now (1)");
  });
  CHECK(is_reported);
  CapturedBlocks::destroy(graph);  // and no harm is done
  Runtime later(simulated());
  const Allocation block = later.pinned_memory().allocate(kBytes);
  CHECK(test.simulator.live().user_objects == 0);
}

TEST_CASE(
    "after a driver failure in a captured copy the counters are right, and a retry succeeds") {
  for (const std::string call :
       {"cuStreamGetCaptureInfo", "cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    CAPTURE(call);
    CapturedBlocks test(with_faults(call + "@1=unknown"));
    const Stream stream = test.stream();
    Buffer device(test, Kind::device, kBytes);
    Allocation block = test.pinned().allocate(kBytes);
    void* const data = block.data();
    begin_capture(stream);
    const auto copy = [&] { test.copier.copy_async(device.data(), data, kBytes, stream); };
    CHECK(contains(message_of<DriverError>(copy), call));
    CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
    test.pinned().validate();
    copy();  // the next one works
    CHECK(test.in_graphs() == 1);
    const CapturedGraph graph(stream);
    CHECK(graph.nodes() == 1);
    block.reset();
    CHECK_FALSE(test.is_reusable(data));
  }
}

TEST_CASE("many threads capture, free and release blocks at once") {
  CapturedBlocks test;
  std::atomic<bool> ends = false;
  std::thread drains([&] {
    while (!ends) {
      test.pinned().release_unused(std::chrono::nanoseconds(0));
      test.pinned().validate();
    }
  });
  std::vector<std::thread> captures;
  for (int number = 0; number < 3; ++number) {
    captures.emplace_back([&] {
      const Stream stream = test.stream();
      const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
      const Allocation device = test.runtime->memory(Device::cuda(0)).allocate(kBytes, stream);
      for (int round = 0; round < 50; ++round) {
        Allocation block = test.pinned().allocate(kBytes);
        begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        test.copier.copy_async(device.data(), block.data(), kBytes, stream);
        const CUgraph graph = CapturedBlocks::end_capture(stream);
        const CUgraphExec exec = test.instantiate(graph);
        CapturedBlocks::destroy(graph);
        CapturedBlocks::launch(exec, stream);
        block.reset();
        std::thread([exec] { CapturedBlocks::destroy(exec); }).join();
      }
    });
  }
  for (std::thread& thread : captures) thread.join();
  ends = true;
  drains.join();
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CHECK(test.pinned().counters().blocks_pending.current == 0);
  test.pinned().validate();
}

TEST_CASE("a forked child leaves captured blocks alone") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Allocation block = test.pinned().allocate(kBytes);
  begin_capture(stream);
  test.copier.copy_async(device.data(), block.data(), kBytes, stream);
  const CapturedGraph graph(stream);
  const auto code = exit_code_without_waiting([&] {
    const bool is_refused =
        is_refused_after_fork([&] { test.pinned().keep_for_graph(block.data(), stream); });
    block.reset();
    test.runtime.reset();
    return is_refused;
  });
  CHECK(code == 0);
  CHECK(test.in_graphs() == 1);
}

TEST_CASE("memory that graphs of the program use is not reused, in any order of work") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    CapturedBlocks test(random_order(seed));
    const Stream stream = test.stream();
    const Stream second = test.stream();
    Buffer device(test, Kind::device, kBytes);
    std::vector<CUgraphExec> execs;
    for (int round = 0; round < 6; ++round) {
      const Allocation source = test.pinned().allocate(kBytes);
      const Allocation target = test.pinned().allocate(kBytes);
      begin_capture(stream);
      test.copier.copy_async(device.data(), source.data(), kBytes, stream);
      test.copier.copy_async(target.data(), device.data(), kBytes, stream);
      const CUgraph graph = CapturedBlocks::end_capture(stream);
      execs.push_back(test.instantiate(graph));
      CapturedBlocks::destroy(graph);
      for (CUgraphExec exec : execs) CapturedBlocks::launch(exec, stream);
      if (round % 2 == 1) {
        CapturedBlocks::destroy(execs.front());
        execs.erase(execs.begin());
      }
    }
    for (CUgraphExec exec : execs) CapturedBlocks::destroy(exec);
    stream.ref().sync();
    const Allocation next = test.pinned().allocate(kBytes);
    test.copier.copy_async(next.data(), device.data(), kBytes, second);
    second.ref().sync();
    CHECK(test.simulator.take_findings().empty());
  }
}

// What a program forgets that captures its own work, and the finding that berth would cause if it
// let such a block go.
TEST_CASE("captured work of the program needs keep_for_graph(), or the simulator reports it") {
  for (const bool is_kept : {true, false}) {
    CapturedBlocks test;
    const Stream stream = test.stream();
    Buffer device(test, Kind::device, kBytes);
    Allocation block = test.pinned().allocate(kBytes);
    void* const data = block.data();
    begin_capture(stream);
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(device.data()),
                                         reinterpret_cast<CUdeviceptr>(data), kBytes,
                                         stream.ref().native()) == CUDA_SUCCESS);
    if (is_kept) test.pinned().keep_for_graph(data, stream);
    const CapturedGraph graph(stream);
    block.reset();
    CHECK(test.comes_back(data) == !is_kept);
    const std::vector<std::string> findings = test.simulator.take_findings();
    CHECK(findings.empty() == is_kept);
    if (!is_kept) CHECK(contains(findings.front(), "when it is launched; it was not destroyed"));
  }
}

/// A freed block at `data`, of which only the graph knows.
void check_kept_until_destroyed(CapturedBlocks& test, const void* data, CUgraph graph) {
  CHECK_FALSE(test.is_reusable(data));
  CapturedBlocks::destroy(graph);
  CapturedBlocks::wait_until_none_is_in_graphs(test.pinned());
  CHECK(test.is_reusable(data));
}

TEST_CASE("record_use() of a captured stream keeps the block for the graph") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Allocation block = test.pinned().allocate(kBytes);
  void* const data = block.data();
  block.record_stream(stream);
  begin_capture(stream);
  block.record_use(stream);
  const CUgraph graph = CapturedBlocks::end_capture(stream);
  block.reset();
  stream.ref().sync();
  test.pinned().release_unused(std::chrono::nanoseconds(0));  // takes notice of the stream's work
  check_kept_until_destroyed(test, data, graph);
}

TEST_CASE("berth_allocator_keep_for_graph() keeps a block as keep_for_graph() does") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Allocation block = test.pinned().allocate(kBytes);
  void* const data = block.data();
  begin_capture(stream);
  CHECK(berth_allocator_keep_for_graph(capi::from_allocator(test.pinned()), data,
                                       capi::from_stream(stream)) == BERTH_OK);
  const CUgraph graph = CapturedBlocks::end_capture(stream);
  block.reset();
  check_kept_until_destroyed(test, data, graph);
}

TEST_CASE("keep_for_graph() refuses memory that no graph can hold") {
  CapturedBlocks test;
  const Stream stream = test.stream();
  Allocation block = test.pinned().allocate(kBytes);
  PinnedAllocator& memory = test.pinned();
  CHECK(contains(message_of<InvalidArgument>([&] { memory.keep_for_graph(block.data(), stream); }),
                 "no graph is being captured"));
  Bytes own(kBytes);
  const HostRegistration registration = memory.register_memory(own.data(), own.size());
  begin_capture(stream);
  CHECK(contains(message_of<InvalidArgument>([&] { memory.keep_for_graph(own.data(), stream); }),
                 "must stay registered"));
  message_of<InvalidArgument>([&] { memory.keep_for_graph(&own, stream); });
  message_of<InvalidArgument>(
      [&] { memory.keep_for_graph(static_cast<std::byte*>(block.data()) + 1, stream); });
  message_of<InvalidArgument>([&] {
    memory.keep_for_graph(block.data(), test.runtime->per_thread_default_stream(Device::cuda(0)));
  });
  memory.keep_for_graph(nullptr, stream);
  CHECK(test.in_graphs() == 0);
  memory.keep_for_graph(block.data(), stream);
  CHECK(test.in_graphs() == 1);
  const CapturedGraph graph(stream);
  memory.validate();
}

TEST_CASE("a request reclaims blocks of destroyed graphs before it fails") {
  RuntimeOptions options;
  options.pinned_allocator.bytes_reserved_max = 16_MiB;
  Simulation test({}, options);
  PinnedAllocator& memory = test.runtime->pinned_memory();
  const Stream stream = test.runtime->create_stream(Device::cuda(0));
  Allocation block = memory.allocate(16_MiB);
  begin_capture(stream);
  memory.keep_for_graph(block.data(), stream);
  const CUgraph graph = CapturedBlocks::end_capture(stream);
  block.reset();
  message_of<OutOfMemory>([&] { block = memory.allocate(16_MiB); });
  CHECK(memory.trim() == 0);
  CapturedBlocks::destroy(graph);
  // Only allocations look for it from here on.
  while (!block) {
    if (auto result = memory.try_allocate(16_MiB)) block = std::move(result).value();
  }
  CHECK(memory.counters().frees_reclaimed == 1);
}

TEST_CASE("a request uses blocks of destroyed graphs before it obtains memory") {
  Simulation test;
  PinnedAllocator& memory = test.runtime->pinned_memory();
  const Stream stream = test.runtime->create_stream(Device::cuda(0));
  Allocation block = memory.allocate(16_MiB);
  const std::uint64_t reserved = memory.counters().bytes_reserved.current;
  begin_capture(stream);
  memory.keep_for_graph(block.data(), stream);
  const CUgraph graph = CapturedBlocks::end_capture(stream);
  block.reset();
  CapturedBlocks::destroy(graph);
  {  // host functions run one after the other, also that of the destroyed graph
    const ContextScope scope(stream.ref().context());
    stream.ref().context().driver().launch_host_func(
        stream.ref().native(), [](void*) {}, nullptr);
  }
  stream.ref().sync();
  block = memory.allocate(16_MiB);
  CHECK(memory.counters().bytes_reserved.current == reserved);
}

}  // namespace captured_blocks_test
