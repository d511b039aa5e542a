// SPDX-License-Identifier: Apache-2.0
#include "berth/stream.hpp"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace stream_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

sim::Config two_devices(sim::Progress progress = sim::Progress::manual) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("a stream without work is done") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  CHECK(stream.ref().is_done());
  stream.ref().sync();
  CHECK(simulation.runtime->default_stream(kDevice).is_done());
}

TEST_CASE("is_done says whether all work submitted so far is done, without waiting for it") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  log.submit(stream, "one");
  log.submit(stream, "two");
  CHECK_FALSE(stream.ref().is_done());
  CHECK(log.done().empty());
  CHECK(simulation.run_next(stream));
  CHECK(log.done() == Names{"one"});
  CHECK_FALSE(stream.ref().is_done());
  CHECK(simulation.run_next(stream));
  CHECK(stream.ref().is_done());
}

TEST_CASE("sync returns when all work submitted so far is done, and leaves other streams alone") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Stream other = simulation.runtime->create_stream(kDevice);
  log.submit(other, "other");
  log.submit(stream, "one");
  log.submit(stream, "two");
  stream.ref().sync();
  CHECK(log.done() == Names{"one", "two"});
  CHECK(stream.ref().is_done());
  CHECK_FALSE(other.ref().is_done());
}

TEST_CASE("work submitted after a wait runs after the event's mark, and the host does not wait") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream first = simulation.runtime->create_stream(kDevice);
  const Stream second = simulation.runtime->create_stream(kDevice);
  log.submit(first, "first");
  const EventLease mark = simulation.runtime->record(first);
  log.submit(second, "before the wait");
  second.ref().wait(mark);
  log.submit(second, "after the wait");
  CHECK(log.done().empty());

  simulation.run_stream(second);
  CHECK(log.done() == Names{"before the wait"});
  CHECK_FALSE(second.ref().is_done());
  simulation.run_stream(first);
  simulation.run_stream(second);
  CHECK(log.done() == Names{"before the wait", "first", "after the wait"});
}

TEST_CASE("a wait keeps the mark that the event had when it was made") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream first = simulation.runtime->create_stream(kDevice);
  const Stream second = simulation.runtime->create_stream(kDevice);
  const Event event(first.ref().context(), {});
  log.submit(first, "old");
  event.ref().record(first);
  second.ref().wait(event);
  log.submit(second, "waits for old");
  simulation.run_stream(first);
  log.submit(first, "new");
  event.ref().record(first);

  simulation.run_stream(second);
  CHECK(log.done() == Names{"old", "waits for old"});
  CHECK_FALSE(event.ref().is_done());
}

TEST_CASE("waiting for an event that was never recorded has no effect") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Event event(stream.ref().context(), {});
  stream.ref().wait(event);
  log.submit(stream, "runs");
  simulation.run_stream(stream);
  CHECK(log.done() == Names{"runs"});
}

TEST_CASE("a stream waits for an event of another device") {
  Simulation simulation(two_devices());
  WorkLog& log = simulation.log;
  const Stream here = simulation.runtime->create_stream(Device::cuda(0));
  const Stream there = simulation.runtime->create_stream(Device::cuda(1));
  log.submit(there, "there");
  const EventLease mark = simulation.runtime->record(there);
  here.ref().wait(mark);
  log.submit(here, "here");
  simulation.run_stream(here);
  CHECK(log.done().empty());
  here.ref().sync();
  CHECK(log.done() == Names{"there", "here"});
}

TEST_CASE("streams of any device work with any current device, and do not change it") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  runtime.devices().set_current(Device::cuda(0));
  WorkLog& log = simulation.log;
  {
    const Stream stream = runtime.create_stream(Device::cuda(1));
    CHECK(stream.ref().device() == Device::cuda(1));
    const EventLease mark = runtime.record(stream);
    stream.ref().wait(mark);
    log.submit(stream, "work");
    CHECK_FALSE(stream.ref().is_done());
    stream.ref().sync();
    CHECK(stream.ref().is_done());
    runtime.default_stream(Device::cuda(1)).sync();
    CHECK(runtime.default_stream(Device::cuda(1)).is_done());
    runtime.default_stream(Device::cuda(1)).wait(mark);
  }
  CHECK(runtime.devices().current() == Device::cuda(0));
}

TEST_CASE("references are equal if stream and device are, also for the null stream") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const Stream other = runtime.create_stream(kDevice);
  CHECK(stream.ref() == runtime.stream(kDevice, stream.ref().native()));
  CHECK(stream.ref() != other.ref());
  CHECK(runtime.default_stream(kDevice) == runtime.stream(kDevice, nullptr));
  CHECK(runtime.default_stream(kDevice).native() == nullptr);
  CHECK(runtime.default_stream(Device::cuda(0)) != runtime.default_stream(Device::cuda(1)));
}

TEST_CASE("an owner destroys its stream once, also after moves") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const std::size_t before = simulation.simulator.live().streams;
  {
    Stream first = runtime.create_stream(kDevice);
    CUstream_st* const native = first.ref().native();
    CHECK(simulation.simulator.live().streams == before + 1);
    Stream second = std::move(first);
    CHECK(second.ref().native() == native);
    CHECK_FALSE(bool(first));
    first = runtime.create_stream(kDevice);
    CHECK(simulation.simulator.live().streams == before + 2);
    second = std::move(first);
    CHECK(simulation.simulator.live().streams == before + 1);
    CHECK(second.ref().native() != native);
  }
  CHECK(simulation.simulator.live().streams == before);
}

TEST_CASE("an owner that is assigned to itself keeps its stream") {
  Simulation simulation;
  Stream stream = simulation.runtime->create_stream(kDevice);
  CUstream_st* const native = stream.ref().native();
  Stream& same = stream;
  stream = std::move(same);
  CHECK(stream.ref().native() == native);
  CHECK(stream.ref().is_done());
}

TEST_CASE("release hands the stream over, adopt takes it") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const std::size_t before = simulation.simulator.live().streams;
  CUstream_st* native = nullptr;
  {
    Stream stream = runtime.create_stream(kDevice);
    native = stream.release();
    CHECK(native != nullptr);
    CHECK(stream.release() == nullptr);
  }
  CHECK(simulation.simulator.live().streams == before + 1);
  {
    const Stream adopted = Stream::adopt(runtime.stream(kDevice, native));
    CHECK(adopted.ref().native() == native);
  }
  CHECK(simulation.simulator.live().streams == before);
}

TEST_CASE("adopt refuses default streams and pooled streams, which stay usable") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const auto refusal = [](StreamRef stream) {
    return message_of<InvalidArgument>([stream] { return Stream::adopt(stream); });
  };
  CHECK(contains(refusal(runtime.stream(kDevice, nullptr)), "legacy"));
  CHECK(contains(refusal(runtime.per_thread_default_stream(kDevice)), "per-thread"));
  StreamLease lease = runtime.streams(kDevice).acquire();
  const StreamRef pooled = lease;
  CHECK(contains(refusal(pooled), "belongs to the pool of cuda:0"));
  runtime.streams(kDevice).give_back(lease.release());
  CHECK(contains(refusal(pooled), "belongs to the pool of cuda:0"));
  CHECK(runtime.streams(kDevice).acquire().ref() == pooled);
  CHECK(pooled.is_done());
}

TEST_CASE("a stream destroyed with work pending completes its work") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  {
    const Stream stream = simulation.runtime->create_stream(kDevice);
    log.submit(stream, "one");
    log.submit(stream, "two");
  }
  simulation.simulator.run_all();
  CHECK(log.done() == Names{"one", "two"});
}

TEST_CASE("a priority above 0 is refused, one below the device's range is clamped") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  for (const int priority : {1, 2, 2147483647}) {
    const std::string message = message_of<InvalidArgument>(
        [&] { return runtime.create_stream(kDevice, {.priority = priority}); });
    CHECK(contains(message, std::to_string(priority)));
  }
  for (const int priority : {0, -1, -5, -6, -1000, -2147483647 - 1}) {
    const Stream stream = runtime.create_stream(kDevice, {.priority = priority});
    CHECK(stream.ref().native() != nullptr);
  }
}

TEST_CASE("berth's streams do not synchronize with the legacy default stream by default") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const Stream apart = runtime.create_stream(kDevice);
  const Stream bound = runtime.create_stream(kDevice, {.blocks_with_legacy_default = true});

  log.submit(runtime.default_stream(kDevice), "default");
  log.submit(apart, "apart");
  log.submit(bound, "bound");
  simulation.run_stream(bound);
  CHECK(log.done().empty());
  simulation.run_stream(apart);
  CHECK(log.done() == Names{"apart"});
  bound.ref().sync();
  CHECK(log.done() == Names{"apart", "default", "bound"});
}

TEST_CASE("two threads sync one stream") {
  Simulation simulation(manual_progress());
  WorkLog& log = simulation.log;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  for (int work = 0; work < 20; ++work) log.submit(stream, "work");
  std::thread other([&] { stream.ref().sync(); });
  stream.ref().sync();
  CHECK(stream.ref().is_done());
  other.join();
  CHECK(log.done().size() == 20);
}

TEST_CASE("streams and pools of cpu and of missing devices are refused") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  for (const Device device : {Device::cpu(), Device::cuda(2), Device::cuda(256)}) {
    CAPTURE(device.to_string());
    message_of<InvalidArgument>([&] { return runtime.create_stream(device); });
    message_of<InvalidArgument>([&] { return runtime.default_stream(device); });
    message_of<InvalidArgument>([&] { return runtime.current_stream(device); });
    message_of<InvalidArgument>([&] { return &runtime.streams(device); });
    message_of<InvalidArgument>([&] { return &runtime.events(device); });
  }
}

}  // namespace stream_test
