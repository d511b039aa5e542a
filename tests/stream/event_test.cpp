// SPDX-License-Identifier: Apache-2.0
#include "berth/event.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace event_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("an event that was never recorded is completed, and sync returns at once") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  WorkLog& log = simulation.log;
  log.submit(stream, "pending");
  const Event event(stream.ref().context(), {});
  CHECK(event.ref().is_done());
  event.ref().sync();
  CHECK(log.done().empty());
}

TEST_CASE("record marks the work submitted so far, and no later work") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Event event(stream.ref().context(), {});
  WorkLog& log = simulation.log;
  log.submit(stream, "before");
  event.ref().record(stream);
  log.submit(stream, "after");
  CHECK_FALSE(event.ref().is_done());
  CHECK(log.done().empty());
  event.ref().sync();
  CHECK(log.done() == Names{"before"});
  CHECK(event.ref().is_done());
  CHECK_FALSE(stream.ref().is_done());
}

TEST_CASE("recording again moves the mark") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Stream other = simulation.runtime->create_stream(kDevice);
  const Event event(stream.ref().context(), {});
  event.ref().record(stream);
  event.ref().sync();
  CHECK(event.ref().is_done());
  WorkLog& log = simulation.log;
  log.submit(other, "work");
  event.ref().record(other);
  CHECK_FALSE(event.ref().is_done());
  event.ref().sync();
  CHECK(log.done() == Names{"work"});
}

TEST_CASE("an event is recorded only on a stream of its device, and keeps its mark if refused") {
  sim::Config config;
  config.devices = 2;
  Simulation simulation(manual_progress(config));
  Runtime& runtime = *simulation.runtime;
  const Stream here = runtime.create_stream(Device::cuda(0));
  const Stream there = runtime.create_stream(Device::cuda(1));
  const Event event(here.ref().context(), {});
  CHECK(event.ref().device() == Device::cuda(0));
  const std::string message = message_of<InvalidArgument>([&] { event.ref().record(there); });
  CHECK(contains(message, "cuda:0"));
  CHECK(contains(message, "cuda:1"));
  message_of<InvalidArgument>([&] { event.ref().record(runtime.default_stream(Device::cuda(1))); });
  RuntimeOptions options;
  options.driver = "sim";
  Runtime other(options);
  const Stream others = other.create_stream(Device::cuda(0));
  CHECK(contains(message_of<InvalidArgument>([&] { event.ref().record(others); }),
                 "a stream of cuda:0 of another Runtime"));
  CHECK(event.ref().is_done());
  event.ref().record(here);
  event.ref().sync();
}

TEST_CASE("elapsed_ms measures between two events with timing") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Event start(stream.ref().context(), {.timing = true});
  const Event end(stream.ref().context(), {.timing = true});
  start.ref().record(stream);
  end.ref().record(stream);
  end.ref().sync();
  CHECK(elapsed_ms(start, end) >= 0.0F);
}

TEST_CASE("elapsed_ms refuses events never recorded, not done, or without timing") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  DeviceContext& context = stream.ref().context();
  const Event recorded(context, {.timing = true});
  recorded.ref().record(stream);
  recorded.ref().sync();
  SUBCASE("never recorded") {
    const Event never(context, {.timing = true});
    const std::string message =
        message_of<InvalidArgument>([&] { return elapsed_ms(recorded, never); });
    CHECK(contains(message, "or was never recorded"));
    message_of<InvalidArgument>([&] { return elapsed_ms(never, recorded); });
  }
  SUBCASE("not done") {
    WorkLog& log = simulation.log;
    log.submit(stream, "work");
    const Event pending(context, {.timing = true});
    pending.ref().record(stream);
    message_of<DriverError>([&] { return elapsed_ms(recorded, pending); });
    stream.ref().sync();
    CHECK(elapsed_ms(recorded, pending) >= 0.0F);
  }
  SUBCASE("without timing") {
    const Event untimed(context, {});
    untimed.ref().record(stream);
    untimed.ref().sync();
    const std::string message =
        message_of<InvalidArgument>([&] { return elapsed_ms(recorded, untimed); });
    CHECK(contains(message, "made without EventOptions::timing"));
    CHECK(contains(message, "cuEventElapsedTime"));
  }
}

TEST_CASE("an owner destroys its event once, also after moves") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  DeviceContext& context = stream.ref().context();
  const std::size_t before = simulation.simulator.live().events;
  {
    Event first(context, {});
    CUevent_st* const native = first.ref().native();
    CHECK(simulation.simulator.live().events == before + 1);
    Event second = std::move(first);
    CHECK(second.ref().native() == native);
    CHECK_FALSE(bool(first));
    first = Event(context, {});
    CHECK(simulation.simulator.live().events == before + 2);
    second = std::move(first);
    CHECK(simulation.simulator.live().events == before + 1);
    Event& same = second;
    second = std::move(same);
    CHECK(simulation.simulator.live().events == before + 1);
    CHECK(second.ref() != EventRef(context, native));
  }
  CHECK(simulation.simulator.live().events == before);
}

TEST_CASE("release hands the event over, adopt takes it") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  DeviceContext& context = stream.ref().context();
  const std::size_t before = simulation.simulator.live().events;
  CUevent_st* native = nullptr;
  {
    Event event(context, {});
    native = event.release();
    CHECK(native != nullptr);
    CHECK(event.release() == nullptr);
  }
  CHECK(simulation.simulator.live().events == before + 1);
  {
    const Event adopted = Event::adopt(EventRef(context, native));
    CHECK(adopted.ref().native() == native);
    CHECK(adopted.ref() == EventRef(context, native));
  }
  CHECK(simulation.simulator.live().events == before);
}

TEST_CASE("an event destroyed before completion does not affect its waiters") {
  Simulation simulation(manual_progress());
  const Stream first = simulation.runtime->create_stream(kDevice);
  const Stream second = simulation.runtime->create_stream(kDevice);
  WorkLog& log = simulation.log;
  log.submit(first, "first");
  {
    const Event event(first.ref().context(), {});
    event.ref().record(first);
    second.ref().wait(event);
  }
  log.submit(second, "second");
  second.ref().sync();
  CHECK(log.done() == Names{"first", "second"});
}

TEST_CASE("Runtime::record marks the work submitted to a stream so far") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  WorkLog& log = simulation.log;
  log.submit(stream, "before");
  const EventLease mark = simulation.runtime->record(stream);
  log.submit(stream, "after");
  CHECK_FALSE(mark->is_done());
  mark->sync();
  CHECK(log.done() == Names{"before"});
  const EventLease of_default =
      simulation.runtime->record(simulation.runtime->default_stream(kDevice));
  of_default->sync();
  CHECK(of_default->is_done());
}

}  // namespace event_test
