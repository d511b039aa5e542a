// SPDX-License-Identifier: Apache-2.0
// Pinned blocks that graphs hold, with a driver that fails, or lacks functions, in the middle.
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/pinned_allocator.hpp"

#include "support/allocator_checks.hpp"
#include "support/tapped_device.hpp"

namespace graph_holds_test {

using namespace berth;
using namespace berth::test;

namespace {

void begin_capture(StreamRef stream) {
  const ContextScope scope(stream.context());
  stream.context().driver().stream_begin_capture(stream.native(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/// Ends the capture, and destroys the graph.
void drop_graph(StreamRef stream) {
  const ContextScope scope(stream.context());
  const Driver& driver = stream.context().driver();
  CUgraph graph = nullptr;
  driver.stream_end_capture(stream.native(), &graph);
  driver.graph_destroy(graph);
}

void wait_until_none_is_in_graphs(const PinnedAllocator& memory) {
  while (memory.counters().blocks_in_graphs.current > 0) std::this_thread::yield();
}

}  // namespace

TEST_CASE("graph holds: a block freed during a failed keep_for_graph() is free") {
  for (const DriverCall call :
       {DriverCall::user_object_create, DriverCall::graph_retain_user_object}) {
    TappedDevice test;
    PinnedAllocator memory(test.registry, {});
    const Stream stream = test.stream();
    void* const data = memory.allocate_raw(4_KiB);
    begin_capture(stream);
    test.tap.before(call, [&] { memory.deallocate(data); });
    test.tap.refuse(call, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(memory.keep_for_graph(data, stream), DriverError);
    wait_until_none_is_in_graphs(memory);
    CHECK(memory.counters().blocks_pending.current == 0);
    CHECK(memory.counters().bytes_active.current == 0);
    check_whole(memory);
    drop_graph(stream);
  }
}

TEST_CASE("graph holds: without the driver's functions a block is never released") {
  for (const DriverCall call :
       {DriverCall::stream_get_capture_info, DriverCall::user_object_create,
        DriverCall::user_object_release, DriverCall::graph_retain_user_object}) {
    TappedDevice test;
    test.tap.hide(call);
    const Driver driver(test.tap.source(), test.reports.sink());
    const Nvml nvml(test.tap.source());
    DeviceRegistry registry(driver, nvml);
    std::optional<PinnedAllocator> memory(std::in_place, registry, PinnedAllocatorOptions{});
    const Stream stream(registry.context(Device::cuda(0)), {});
    void* const data = memory->allocate_raw(4_KiB);
    CHECK_THROWS_AS(memory->keep_for_graph(data, stream), InvalidArgument);
    begin_capture(stream);
    memory->keep_for_graph(data, stream);
    memory->keep_for_graph(data, stream);
    drop_graph(stream);
    memory->deallocate(data);
    memory->trim();
    CHECK(memory->counters().blocks_in_graphs.current == 1);
    CHECK(memory->counters().blocks_pending.current == 1);
    check_whole(*memory);
    memory.reset();
    CHECK(test.simulator.live().host_allocations == 0);
    CHECK(test.simulator.live().host_registrations == 0);
  }
}

}  // namespace graph_holds_test
