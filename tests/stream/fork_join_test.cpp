// SPDX-License-Identifier: Apache-2.0
#include "berth/fork_join.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace fork_join_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

const Device kDevice = Device::cuda(0);

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

std::size_t place(const Names& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  REQUIRE(found != names.end());
  return static_cast<std::size_t>(found - names.begin());
}

/// A device with pools, whose driver calls a test refuses.
struct ForkTest : TappedDevice {
  ForkTest() : TappedDevice(manual_progress()) {}
  ~ForkTest() { simulator.run_all(); }

  StreamPool streams{context, {}};
};

}  // namespace

TEST_CASE(
    "join makes the waiter wait for the work submitted to each stream, and for no later work") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const Stream waiter = runtime.create_stream(kDevice);
  const Stream first = runtime.create_stream(kDevice);
  const Stream second = runtime.create_stream(kDevice);
  log.submit(first, "first");
  log.submit(second, "second");
  runtime.join(waiter, {first, second});
  log.submit(first, "later");
  log.submit(waiter, "joined");

  simulation.run_stream(waiter);
  CHECK(log.done().empty());
  CHECK(simulation.run_next(first));
  CHECK(simulation.run_next(first));  // the mark, which is work as well
  simulation.run_stream(waiter);
  CHECK(log.done() == Names{"first"});
  simulation.run_stream(second);
  simulation.run_stream(waiter);
  CHECK(log.done() == Names{"first", "second", "joined"});
  simulation.run_stream(first);
}

TEST_CASE("join records one event for each distinct stream, and none for the waiter itself") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const Stream waiter = runtime.create_stream(kDevice);
  const Stream stream = runtime.create_stream(kDevice);
  const StreamRef legacy = runtime.default_stream(kDevice);
  runtime.join(waiter, {stream, waiter, legacy, stream, stream, legacy});
  CHECK(driver_calls(runtime, "cuEventRecord") == 2);
  CHECK(driver_calls(runtime, "cuStreamWaitEvent") == 2);
  CHECK(runtime.events(kDevice).leases_live() == 0);

  runtime.join(waiter, {waiter});
  runtime.join(waiter, {});
  CHECK(driver_calls(runtime, "cuEventRecord") == 2);
  CHECK(driver_calls(runtime, "cuStreamWaitEvent") == 2);
}

TEST_CASE("join takes streams of any devices, whichever is current") {
  Simulation simulation(manual_progress(two_devices()));
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const Stream waiter = runtime.create_stream(Device::cuda(0));
  const Stream here = runtime.create_stream(Device::cuda(0));
  const Stream there = runtime.create_stream(Device::cuda(1));
  log.submit(here, "here");
  log.submit(there, "there");
  runtime.join(waiter, {here, there});
  log.submit(waiter, "joined");
  simulation.run_stream(here);
  simulation.run_stream(waiter);
  CHECK(log.done() == Names{"here"});
  waiter.ref().sync();
  CHECK(log.done() == Names{"here", "there", "joined"});
}

TEST_CASE("join with the events of one device refuses a stream of another") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream waiter = runtime.create_stream(Device::cuda(0));
  const Stream there = runtime.create_stream(Device::cuda(1));
  const std::string message =
      message_of<InvalidArgument>([&] { join(runtime.events(Device::cuda(0)), waiter, {there}); });
  CHECK(contains(message, "cuda:1"));
  CHECK(runtime.events(Device::cuda(0)).leases_live() == 0);
  join(runtime.events(Device::cuda(1)), waiter, {there});
}

TEST_CASE("side streams wait for the parent's earlier work, and the parent waits for theirs") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const Stream parent = runtime.create_stream(kDevice);
  log.submit(parent, "before");
  {
    const ForkJoin side = runtime.fork(parent, 2);
    REQUIRE(side.size() == 2);
    CHECK(side[0] != side[1]);
    log.submit(side[0], "left");
    log.submit(side[1], "right");
    log.submit(parent, "beside");
    simulation.run_stream(side[0]);
    simulation.run_stream(side[1]);
    CHECK(log.done().empty());
    CHECK(simulation.run_next(parent));
    CHECK(simulation.run_next(parent));  // the mark, which is work as well
    simulation.run_stream(side[1]);
    CHECK(log.done() == Names{"before", "right"});
  }
  log.submit(parent, "after");
  simulation.run_stream(parent);
  CHECK(log.done() == Names{"before", "right", "beside"});
  parent.ref().sync();
  CHECK(log.done() == Names{"before", "right", "beside", "left", "after"});
}

TEST_CASE("the race detector accepts a fork and join, and reports a stream left out of it") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream parent = runtime.create_stream(kDevice);
  const Allocation block = runtime.memory(kDevice).allocate(1024, parent);
  const auto use = [&](StreamRef stream) {
    const StreamGuard guard(stream);
    const auto address = reinterpret_cast<CUdeviceptr>(block.data());
    REQUIRE(simulation.simulator.launch(stream.native(), 1, {{address, 1024, true}}));
  };
  use(parent);
  {
    ForkJoin side = runtime.fork(parent, 1);
    use(side[0]);
    side.join();
    use(parent);
  }
  CHECK(simulation.simulator.take_findings().empty());

  const ForkJoin side = runtime.fork(parent, 1);
  use(parent);
  use(side[0]);
  CHECK_FALSE(simulation.simulator.take_findings().empty());
}

TEST_CASE("once joined, side streams are back in their pool, and joining again does nothing") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream parent = runtime.create_stream(kDevice);
  ForkJoin side = runtime.fork(parent, 3);
  CHECK(runtime.streams(kDevice).leases_live() == 3);
  side.join();
  CHECK(side.streams().empty());
  CHECK(runtime.streams(kDevice).leases_live() == 0);
  CHECK(runtime.events(kDevice).leases_live() == 0);
  const std::uint64_t calls = driver_calls(runtime);
  side.join();
  CHECK(driver_calls(runtime) == calls);
}

TEST_CASE("a fork into no streams makes no driver call") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream parent = runtime.create_stream(kDevice);
  const std::uint64_t calls = driver_calls(runtime);
  {
    ForkJoin side = runtime.fork(parent, 0);
    CHECK(side.size() == 0);
    side.join();
  }
  CHECK(driver_calls(runtime) == calls);
}

TEST_CASE("a fork into more streams than any pool has is refused") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const StreamLease parent = runtime.streams(kDevice).acquire();
  for (const std::size_t count : {ForkJoin::kStreamsMax + 1, std::size_t{1} << 40}) {
    CHECK(contains(
        message_of<InvalidArgument>([&] { const auto side = runtime.fork(parent, count); }),
        "streams; accepted: 0 to 65536"));
  }
  CHECK(contains(
      message_of<InvalidArgument>([&] { const auto side = runtime.fork(parent, std::size_t(-1)); }),
      "18446744073709551615 streams, perhaps a negative number; accepted: 0 to 65536"));
  CHECK(runtime.streams(kDevice).leases_live() == 1);
}

TEST_CASE("shared side streams are forked and joined if the pool has fewer than requested") {
  RuntimeOptions options;
  options.stream_pool.streams_max = 1;
  Simulation simulation(manual_progress(), options);
  Runtime& runtime = *simulation.runtime;
  const StreamLease parent = runtime.streams(kDevice).acquire();
  simulation.log.submit(parent, "before");
  {
    const ForkJoin side = runtime.fork(parent, 2);
    CHECK(side[0] == parent.ref());
    CHECK(side[1] == parent.ref());
    simulation.log.submit(side[0], "side");
  }
  simulation.log.submit(parent, "after");
  simulation.run_stream(parent);
  CHECK(simulation.log.done() == Names{"before", "side", "after"});
}

TEST_CASE("side streams are joined when an exception leaves the scope") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const Stream parent = runtime.create_stream(kDevice);
  CHECK_THROWS_AS(
      [&] {
        const ForkJoin side = runtime.fork(parent, 1);
        simulation.log.submit(side[0], "side");
        throw std::runtime_error("the caller's");
      }(),
      std::runtime_error);
  simulation.log.submit(parent, "after");
  parent.ref().sync();
  CHECK(simulation.log.done() == Names{"side", "after"});
}

TEST_CASE("streams are forked on the parent's device only") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream parent = runtime.create_stream(Device::cuda(0));
  StreamPool& there = runtime.streams(Device::cuda(1));
  const std::string message = message_of<InvalidArgument>(
      [&] { const ForkJoin side(parent, there, runtime.events(Device::cuda(0)), 1); });
  CHECK(contains(message, "cuda:0"));
  CHECK(contains(message, "cuda:1"));
  CHECK(there.leases_live() == 0);
  message_of<InvalidArgument>([&] { const auto side = runtime.fork(parent, 1, 1); });
}

TEST_CASE("a partly failed fork joins its side streams and returns them") {
  ForkTest test;
  const Stream parent = test.stream();
  test.log.submit(parent, "parent");
  // The first side stream waits for the parent; the second is refused.
  test.tap.refuse(DriverCall::stream_wait_event, CUDA_ERROR_OUT_OF_MEMORY, 2);
  int joined = 0;
  test.tap.after(DriverCall::event_record,
                 [&] { test.tap.after(DriverCall::event_record, [&] { ++joined; }); });
  message_of<DriverError>([&] { const ForkJoin side(parent, test.streams, test.events, 3); });
  CHECK(joined == 1);
  CHECK(test.streams.leases_live() == 0);
  CHECK(test.events.leases_live() == 0);
  CHECK(test.reports.all().empty());
}

TEST_CASE("a fork whose event is refused changes no side stream") {
  ForkTest test;
  const Stream parent = test.stream();
  test.tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY);
  message_of<DriverError>([&] { const ForkJoin side(parent, test.streams, test.events, 2); });
  CHECK(test.streams.leases_live() == 0);
  CHECK(test.reports.all().empty());
}

TEST_CASE("a join that fails throws, keeps the side streams, and can be called again") {
  ForkTest test;
  const Stream parent = test.stream();
  ForkJoin side(parent, test.streams, test.events, 2);
  test.log.submit(side[1], "side");
  test.tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY, 2);
  message_of<DriverError>([&] { side.join(); });
  CHECK(side.size() == 2);
  CHECK(test.streams.leases_live() == 2);
  side.join();
  CHECK(side.size() == 0);
  test.log.submit(parent, "after");
  parent.ref().sync();
  CHECK(test.log.done() == Names{"side", "after"});
}

TEST_CASE("if a join fails in the destructor, the host waits and the failure is reported") {
  ForkTest test;
  const Stream parent = test.stream();
  {
    const ForkJoin side(parent, test.streams, test.events, 2);
    test.log.submit(side[0], "left");
    test.log.submit(side[1], "right");
    test.tap.refuse_all(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY);
  }
  CHECK(test.log.done() == Names{"left", "right"});
  CHECK(test.reports.count(Severity::error) == 1);
  CHECK(test.reports.mention("cuEventRecord"));
  CHECK(test.streams.leases_live() == 0);
}

TEST_CASE("a fork and join in a capture becomes branches of its graph") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const Stream parent = runtime.create_stream(kDevice);
  std::optional<CapturedGraph> graph;
  begin_capture(parent);
  log.submit(parent, "before");
  {
    const ForkJoin side = runtime.fork(parent, 2);
    CHECK(capture_status(side[1]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    log.submit(side[0], "left");
    log.submit(side[1], "right");
  }
  log.submit(parent, "after");
  graph.emplace(parent);
  CHECK(graph->nodes() == 4);
  CHECK(log.done().empty());

  for (std::size_t run = 0; run < 2; ++run) {
    graph->launch();
    parent.ref().sync();
    const Names all = log.done();
    REQUIRE(all.size() == 4 * (run + 1));
    const Names done(all.end() - 4, all.end());
    CHECK(place(done, "before") == 0);
    CHECK(place(done, "left") < 3);
    CHECK(place(done, "right") < 3);
    CHECK(place(done, "after") == 3);
  }
}

TEST_CASE("a joined side stream of a capture is not leased until the capture ends") {
  for (const StreamShortage policy :
       {StreamShortage::share, StreamShortage::wait, StreamShortage::fail}) {
    RuntimeOptions options;
    options.stream_pool = {.streams_max = 1, .on_shortage = policy};
    Simulation simulation(manual_progress(), options);
    Runtime& runtime = *simulation.runtime;
    StreamPool& pool = runtime.streams(kDevice);
    const Stream parent = runtime.create_stream(kDevice);
    begin_capture(parent);
    CUstream_st* side = nullptr;
    {
      const ForkJoin fork = runtime.fork(parent, 1);
      side = fork[0].native();
      simulation.log.submit(fork[0], "captured");
    }
    CHECK(pool.leases_live() == 0);
    for (int round = 0; round < 2; ++round) {
      const StreamLease lease = pool.acquire();
      CHECK(lease.ref().native() != side);
      CHECK_FALSE(lease->is_capturing());
      simulation.log.submit(lease, "beside");
    }
    CHECK(pool.streams_created() == 2);
    CHECK(CapturedGraph(parent).nodes() == 1);
    const StreamLease first = pool.acquire();
    const StreamLease second = pool.acquire();
    CHECK(second.ref().native() == side);
    CHECK(pool.streams_created() == 2);
  }
}

TEST_CASE("a captured stream is not shared") {
  RuntimeOptions options;
  options.stream_pool = {.streams_max = 1, .on_shortage = StreamShortage::share};
  Simulation simulation(manual_progress(), options);
  StreamPool& pool = simulation.runtime->streams(kDevice);
  const Stream parent = simulation.runtime->create_stream(kDevice);
  begin_capture(parent);
  { const ForkJoin fork = simulation.runtime->fork(parent, 1); }
  {
    const StreamLease first = pool.acquire();
    const StreamLease second = pool.acquire();
    CHECK(first.ref() == second.ref());
    CHECK_FALSE(first->is_capturing());
  }
  CHECK(CapturedGraph(parent).nodes() == 0);
}

TEST_CASE("a partly failed fork in a capture leaves the capture valid") {
  ForkTest test;
  const Stream parent = test.stream();
  begin_capture(parent);
  test.log.submit(parent, "captured");
  test.tap.refuse(DriverCall::stream_wait_event, CUDA_ERROR_OUT_OF_MEMORY, 2);
  message_of<DriverError>([&] { const ForkJoin side(parent, test.streams, test.events, 2); });
  const CapturedGraph graph(parent);
  CHECK(graph.nodes() == 1);
}

TEST_CASE("side streams of an invalidated capture are not touched") {
  ForkTest test;
  const Stream parent = test.stream();
  begin_capture(parent);
  {
    const ForkJoin side(parent, test.streams, test.events, 1);
    const ContextScope scope(test.context);
    CHECK(test.driver.try_stream_synchronize(parent.ref().native()) != CUDA_SUCCESS);
  }
  CHECK(test.reports.count(Severity::error) == 1);
  CHECK(fail_capture(parent) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(test.streams.leases_live() == 0);
}

}  // namespace fork_join_test
