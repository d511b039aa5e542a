// SPDX-License-Identifier: Apache-2.0
// The end of a Runtime whose parts the program still holds: it reports them, and pools and guards
// that end later have no effect.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/graph.hpp"

#include "support/errors.hpp"
#include "support/reports.hpp"
#include "support/simulation.hpp"

namespace runtime_end_test {

using namespace berth;
using namespace berth::test;

namespace {

/// An object that is not destroyed, as one that a program leaks. A list refers to it, so that leak
/// detection accepts it.
template <class Object>
class Leaked {
 public:
  template <class Make>
  explicit Leaked(const Make& make) {
    static auto& all = *new std::vector<Object*>;
    all.push_back(new Object(make()));
  }
};

/// Two devices without a check of what is left alive.
struct Ending {
  Ending() : simulator(two_devices()) {
    RuntimeOptions options;
    options.driver = "sim";
    options.report = reports.sink();
    runtime.emplace(options);
  }
  /// The reports of the end.
  [[nodiscard]] std::vector<std::string> end() {
    runtime.reset();
    std::vector<std::string> messages;
    for (const Report& report : reports.all()) {
      CHECK(report.severity == Severity::warning);
      messages.push_back(report.message);
    }
    return messages;
  }
  static sim::Config two_devices() {
    sim::Config config;
    config.devices = 2;
    return config;
  }

  sim::Simulator simulator;
  Reports reports;
  std::optional<Runtime> runtime;
  const Device device = Device::cuda(0);
};

using Messages = std::vector<std::string>;

}  // namespace

TEST_CASE("the end of a Runtime closes the pools that are open, and names them") {
  Ending test;
  MemoryPool first = test.runtime->memory(test.device).create_pool({.name = "p"});
  std::optional<MemoryPool> second =
      test.runtime->memory(test.device).create_pool({.name = "q", .for_graphs = true});
  const std::optional<MemoryPool> copy = second;
  const std::optional<MemoryPool> elsewhere =
      test.runtime->memory(Device::cuda(1)).create_pool({.name = "r"});
  { const MemoryPool closed = test.runtime->memory(test.device).create_pool({.name = "s"}); }
  for (MemoryPool* const pool : {&first, &*second}) {
    const StreamLease stream = test.runtime->streams(test.device).acquire();
    const Allocation block = pool->allocate(1 << 20, stream);
  }
  CHECK(test.simulator.device_bytes_used(0) > 0);
  CHECK(test.end() ==
        Messages{"the Runtime ends while 2 memory pools live (cuda:0/p, cuda:0/q), and closes "
                 "them; accepted: pools and their scopes end first",
                 "the Runtime ends while 1 memory pool lives (cuda:1/r), and closes it; accepted: "
                 "pools and their scopes end first"});
  CHECK(test.simulator.device_bytes_used(0) == 0);
  CHECK(test.simulator.live() == sim::Live{});
  second.reset();
}

TEST_CASE("a pool that outlives its Runtime keeps its name and refuses calls") {
  Ending test;
  MemoryPool pool = test.runtime->memory(test.device).create_pool({.name = "p"});
  CHECK(test.end().size() == 1);
  CHECK(pool.name() == "cuda:0/p");
  CHECK(pool.device() == test.device);
  CHECK_FALSE(pool.owns(&pool));
  for (const std::string& refusal :
       {message_of<InvalidArgument>([&] { pool.trim(); }),
        message_of<InvalidArgument>([&] { static_cast<void>(pool.counters()); }),
        message_of<InvalidArgument>([&] { return PoolScope::on_this_thread(pool); })}) {
    CHECK(refusal == "cuda:0/p is used after its Runtime was destroyed");
  }
}

TEST_CASE("a scope that outlives the Runtime of its pool has no effect") {
  Ending test;
  std::optional<MemoryPool> pool = test.runtime->memory(test.device).create_pool({.name = "p"});
  std::optional<PoolScope> on_thread = PoolScope::on_this_thread(*pool);
  std::optional<PoolScope> on_stream =
      PoolScope::on_stream(*pool, test.runtime->default_stream(test.device));
  pool.reset();
  CHECK(test.end() == Messages{"the Runtime ends while 1 memory pool lives (cuda:0/p), and closes "
                               "it; accepted: pools and their scopes end first"});
  on_stream.reset();
  on_thread.reset();
  CHECK(test.simulator.live() == sim::Live{});
}

TEST_CASE("blocks of a pool that the end of the Runtime closes are reported after it") {
  Ending test;
  const StreamRef stream = test.runtime->default_stream(test.device);
  MemoryPool pool = test.runtime->memory(test.device).create_pool({.name = "p"});
  CHECK(pool.allocate_raw(1000, stream) != nullptr);
  const Messages messages = test.end();
  REQUIRE(messages.size() == 2);
  CHECK(contains(messages[0], "1 memory pool lives (cuda:0/p)"));
  CHECK(messages[1] ==
        "cuda:0/p: 1 allocation of 1000 B was still live when the allocator was destroyed");
  CHECK(test.simulator.live() == sim::Live{});
}

TEST_CASE("the end of a Runtime reports the leases of each pool") {
  Ending test;
  StreamLease first = test.runtime->streams(test.device).acquire();
  StreamLease second = test.runtime->streams(test.device).acquire(-1);
  EventLease event = test.runtime->record(first);
  { const StreamLease returned = test.runtime->streams(test.device).acquire(); }
  StreamLease elsewhere = test.runtime->streams(Device::cuda(1)).acquire();
  const Leaked<ForkJoin> side([&] { return test.runtime->fork(elsewhere, 2); });
  const Leaked<StreamLease> late([&] { return std::move(first); });
  const Leaked<EventLease> late_event([&] { return std::move(event); });
  const Leaked<StreamLease> late_elsewhere([&] { return std::move(elsewhere); });
  const Leaked<StreamLease> late_too([&] { return std::move(second); });
  CHECK(test.end() ==
        Messages{"streams of cuda:0: 2 leases are live when their Runtime ends; accepted: each "
                 "StreamLease and ForkJoin ends first",
                 "events of cuda:0: 1 lease is live when its Runtime ends; accepted: each "
                 "EventLease and Transfer ends first",
                 "streams of cuda:1: 3 leases are live when their Runtime ends; accepted: each "
                 "StreamLease and ForkJoin ends first"});
}

TEST_CASE("the end of a Runtime reports streams and graphs that the program owns") {
  Ending test;
  std::optional<Stream> ended = test.runtime->create_stream(test.device);
  const Leaked<Stream> stream([&] { return test.runtime->create_stream(test.device); });
  Graph graph;
  {
    GraphCapture capture(*ended);
    graph = capture.end();
  }
  {
    GraphCapture capture(*ended);
    const Graph also_ended = capture.end();
  }
  ended.reset();
  const Leaked<Graph> late([&] { return std::move(graph); });
  CHECK(test.end() == Messages{"streams of cuda:0: 1 Stream is live when its Runtime ends; "
                               "accepted: each Stream ends first",
                               "graphs of cuda:0: 1 Graph is live when its Runtime ends; accepted: "
                               "each Graph ends first"});
  CHECK(test.simulator.take_findings().size() == 1);  // the stream is a leak there
}

TEST_CASE("guards of the thread that ends a Runtime are reported, and have no effect later") {
  Ending test;
  RuntimeOptions options;
  options.driver = "sim";
  std::optional<Runtime> other(options);
  const Device before = Device::cuda(0);  // no context is current
  CHECK(other->devices().current() == before);
  std::optional<DeviceGuard> kept;
  kept.emplace(other->devices(), Device::cuda(1));
  std::optional<DeviceGuard> device;
  device.emplace(test.runtime->devices(), test.device);
  std::optional<StreamGuard> stream;
  stream.emplace(test.runtime->default_stream(Device::cuda(1)));
  std::optional<DeviceGuard> innermost;
  innermost.emplace(test.runtime->devices(), test.device);
  CHECK(test.end() == Messages{"the Runtime ends within 3 of its guards on this thread; accepted: "
                               "each DeviceGuard and StreamGuard ends first"});
  CHECK(other->devices().current() == Device::cuda(1));
  {
    const DeviceGuard inner(other->devices(), Device::cuda(0));
    CHECK(other->devices().current() == Device::cuda(0));
  }
  CHECK(other->devices().current() == Device::cuda(1));
  innermost.reset();
  stream.reset();
  device.reset();
  CHECK(other->devices().current() == Device::cuda(1));
  kept.reset();
  CHECK(other->devices().current() == before);
  other.reset();
  CHECK(test.simulator.take_findings().empty());
  CHECK(test.simulator.live() == sim::Live{});
}

TEST_CASE("guards of a Runtime that ends inside of another Runtime's guard have no effect later") {
  Ending test;
  RuntimeOptions options;
  options.driver = "sim";
  const Runtime other(options);
  std::optional<DeviceGuard> device;
  device.emplace(test.runtime->devices(), test.device);
  std::optional<DeviceGuard> inner;
  inner.emplace(other.devices(), Device::cuda(1));
  CHECK(test.end().size() == 1);
  CHECK(other.devices().current() == Device::cuda(1));
  inner.reset();
  device.reset();
}

TEST_CASE("a Runtime ends in silence if nothing of it is held") {
  Ending test;
  {
    const StreamLease stream = test.runtime->streams(test.device).acquire();
    const EventLease event = test.runtime->record(stream);
    const ForkJoin side = test.runtime->fork(stream, 2);
    const Stream own = test.runtime->create_stream(test.device);
    const StreamGuard guard(own);
    MemoryPool pool = test.runtime->memory(test.device).create_pool({.name = "p"});
    const PoolScope scope = PoolScope::on_this_thread(pool);
    const Allocation block = test.runtime->memory(test.device).allocate(1000, own);
    std::vector<char> host(1000);
    test.runtime->copier().start(block.data(), host.data(), 1000, own).wait();
  }
  CHECK(test.end().empty());
}

TEST_CASE("a Runtime records events of both kinds") {
  Ending test;
  const StreamLease stream = test.runtime->streams(test.device).acquire();
  {
    const EventLease start = test.runtime->record(stream, {.timing = true});
    const EventLease end = test.runtime->record(stream, {.timing = true});
    stream->sync();
    CHECK(elapsed_ms(start, end) >= 0);
  }
  CHECK(contains(message_of<InvalidArgument>([&] {
                   static_cast<void>(test.runtime->record(stream, {.interprocess = true}));
                 }),
                 "interprocess"));
  CHECK(test.runtime->events(test.device).leases_live() == 0);
}

}  // namespace runtime_end_test
