// SPDX-License-Identifier: Apache-2.0
// Calls that would break a capture are refused, and the capture stays valid.
#include "stream/capture.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/relaxed_capture_scope.hpp"

#include "stream/wait_after_failure.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace capture_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

const Device kDevice = Device::cuda(0);

/// A stream that is captured, with one piece of work, in each mode of captures; `test` gets it. The
/// capture must end well after that, and its graph hold that work and nothing else.
void within_a_capture(const std::function<void(Simulation&, StreamRef)>& test,
                      std::vector<CUstreamCaptureMode> modes = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                                CU_STREAM_CAPTURE_MODE_RELAXED}) {
  for (const CUstreamCaptureMode mode : modes) {
    CAPTURE(int(mode));
    Simulation simulation(manual_progress());
    const Stream stream = simulation.runtime->create_stream(
        kDevice, {.priority = 0, .blocks_with_legacy_default = true});
    begin_capture(stream, mode);
    simulation.log.submit(stream, "captured");
    test(simulation, stream);
    const CapturedGraph graph(stream);
    CHECK(graph.nodes() == 1);
    graph.launch();
    stream.ref().sync();
    CHECK(simulation.log.done() == Names{"captured"});
  }
}

}  // namespace

TEST_CASE("queries and waits on a captured stream throw, and the capture stays valid") {
  within_a_capture([](Simulation&, StreamRef stream) {
    CHECK(contains(message_of<StreamCaptured>([&] { return stream.is_done(); }), "cuda:0"));
    CHECK(contains(message_of<StreamCaptured>([&] { stream.sync(); }), "captured"));
  });
}

TEST_CASE(
    "queries and waits of an event that marks captured work throw, and its capture stays valid") {
  within_a_capture([](Simulation&, StreamRef stream) {
    const Event event(stream.context(), {.timing = true});
    const Event other(stream.context(), {.timing = true});
    event.ref().record(stream);
    message_of<StreamCaptured>([&] { return event.ref().is_done(); });
    message_of<StreamCaptured>([&] { event.ref().sync(); });
    message_of<StreamCaptured>([&] { return elapsed_ms(event, other); });
    message_of<StreamCaptured>([&] { return elapsed_ms(other, event); });
  });
}

TEST_CASE("the legacy default stream is refused while a blocking stream is captured") {
  within_a_capture([](Simulation& simulation, StreamRef stream) {
    const Event event(stream.context(), {});
    for (CUstream native : {CUstream{nullptr}, CU_STREAM_LEGACY}) {
      const StreamRef legacy = simulation.runtime->stream(kDevice, native);
      CHECK(legacy.is_capturing());
      CHECK(contains(message_of<StreamCaptured>([&] { legacy.sync(); }), "legacy"));
      message_of<StreamCaptured>([&] { return legacy.is_done(); });
      message_of<StreamCaptured>([&] { legacy.wait(event); });
      message_of<StreamCaptured>([&] { event.ref().record(legacy); });
      message_of<StreamCaptured>([&] { return simulation.runtime->record(legacy); });
      message_of<StreamCaptured>([&] { simulation.runtime->join(stream, {legacy}); });
    }
    CHECK(simulation.runtime->events(kDevice).leases_live() == 0);
  });
}

TEST_CASE("the legacy default stream is not drawn into a capture") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  begin_capture(stream);
  const Event event(stream.ref().context(), {});
  event.ref().record(stream);
  const StreamRef legacy = simulation.runtime->default_stream(kDevice);
  CHECK_FALSE(legacy.is_capturing());
  message_of<StreamCaptured>([&] { legacy.wait(event); });
  const CapturedGraph graph(stream);
}

TEST_CASE("a stream that waits for captured work is captured with it") {
  within_a_capture([](Simulation& simulation, StreamRef stream) {
    const StreamLease side = simulation.runtime->streams(kDevice).acquire();
    CHECK_FALSE(side->is_capturing());
    side->wait(simulation.runtime->record(stream));
    CHECK(side->is_capturing());
    message_of<StreamCaptured>([&] { side->sync(); });
    stream.wait(simulation.runtime->record(side));
  });
}

TEST_CASE("a captured stream does not join work outside of its capture, which stays valid") {
  within_a_capture([](Simulation& simulation, StreamRef stream) {
    const Stream outside = simulation.runtime->create_stream(kDevice);
    CHECK(contains(message_of<StreamCaptured>([&] {
                     simulation.runtime->join(stream, {stream, outside});
                   }),
                   "outside of its capture"));
    const Stream other = simulation.runtime->create_stream(kDevice);
    begin_capture(other, CU_STREAM_CAPTURE_MODE_RELAXED);
    simulation.log.submit(other, "of the other");
    message_of<StreamCaptured>([&] { simulation.runtime->join(stream, {other}); });
    const CapturedGraph graph(other);
    CHECK(graph.nodes() == 1);
  });
}

TEST_CASE("a blocking copy refuses a captured stream, and leaves nothing in its graph") {
  within_a_capture([](Simulation& simulation, StreamRef stream) {
    std::array<std::byte, 8> from{};
    std::array<std::byte, 8> to{};
    message_of<StreamCaptured>(
        [&] { simulation.runtime->copier().copy(to.data(), from.data(), from.size(), stream); });
  });
}

TEST_CASE("no wait follows a failure on a captured stream") {
  within_a_capture([](Simulation& simulation, StreamRef stream) {
    wait_after_failure(stream);
    CHECK(simulation.reports.all().empty());
  });
}

TEST_CASE("an invalidated capture remains a capture until it is ended") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  begin_capture(stream);
  {
    const StreamGuard guard(stream);
    CHECK(sim::berth_sim_cuStreamSynchronize(stream.ref().native()) != CUDA_SUCCESS);
  }
  CHECK(stream.ref().is_capturing());
  message_of<StreamCaptured>([&] { stream.ref().sync(); });
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_FALSE(stream.ref().is_capturing());
  stream.ref().sync();
}

TEST_CASE("an event is queried again once it is recorded on uncaptured work") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Stream other = simulation.runtime->create_stream(kDevice);
  const Event event(stream.ref().context(), {});
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  event.ref().record(stream);
  message_of<StreamCaptured>([&] { return event.ref().is_done(); });
  SUBCASE("on another stream, during the capture") {
    simulation.log.submit(other, "work");
    event.ref().record(other);
    const RelaxedCaptureScope relaxed(stream.ref().context());
    CHECK_FALSE(event.ref().is_done());
    event.ref().sync();
    CHECK(simulation.log.done() == Names{"work"});
    const CapturedGraph graph(stream);
  }
  SUBCASE("on its stream, after the capture") {
    const CapturedGraph graph(stream);
    message_of<StreamCaptured>([&] { return event.ref().is_done(); });
    event.ref().record(stream);
    event.ref().sync();
    CHECK(event.ref().is_done());
  }
}

TEST_CASE("an event with the handle of one that marked captured work is its own event") {
  TappedDevice test;
  const Stream stream = test.stream();
  std::optional<Event> event(std::in_place, test.context, EventOptions{});
  CUevent_st* const native = event->ref().native();
  begin_capture(stream);
  event->ref().record(stream);
  SUBCASE("the first event was destroyed by its owner") {
    event.reset();
    CHECK(test.context.captured_events().insert(native));
    test.context.captured_events().erase(native);
  }
  SUBCASE("the new event is created by berth") {
    const Event next(test.context, {});
    CHECK_FALSE(test.context.captured_events().contains(next.ref().native()));
  }
  const CapturedGraph graph(stream);
}

TEST_CASE("an event that could not be recorded on a captured stream keeps its mark") {
  TappedDevice test(manual_progress());
  const Stream stream = test.stream();
  const Event event(test.context, {});
  test.tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY, 1);
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  message_of<DriverError>([&] { event.ref().record(stream); });
  CHECK(event.ref().is_done());
  event.ref().record(stream);
  test.tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY, 1);
  message_of<DriverError>([&] { event.ref().record(stream); });
  message_of<StreamCaptured>([&] { return event.ref().is_done(); });
  const CapturedGraph graph(stream);
}

TEST_CASE("without a capture, stream calls make one more driver call, and event queries none") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const Event event(stream.ref().context(), {});
  const StreamGuard guard(stream);
  const auto calls_of = [&](const std::function<void()>& action) {
    const std::uint64_t calls = driver_calls(runtime);
    action();
    return driver_calls(runtime) - calls;
  };
  // Each asks for the current context, and does what it is for.
  CHECK(calls_of([&] { event.ref().record(stream); }) == 3);
  CHECK(calls_of([&] { stream.ref().sync(); }) == 3);
  CHECK(calls_of([&] { CHECK(stream.ref().is_done()); }) == 3);
  CHECK(calls_of([&] { stream.ref().wait(event); }) == 2);
  CHECK(calls_of([&] { event.ref().sync(); }) == 2);
  CHECK(calls_of([&] { CHECK(event.ref().is_done()); }) == 2);
}

TEST_CASE("the allocator queries a stream and its capture once") {
  sim::Config config;
  config.memory = {64ULL << 20};
  Simulation simulation(config);
  Runtime& runtime = *simulation.runtime;
  const Stream first = runtime.create_stream(kDevice);
  const Stream second = runtime.create_stream(kDevice);
  { const Allocation block = runtime.memory(kDevice).allocate(40ULL << 20, first); }
  const std::uint64_t queries = driver_calls(runtime, "cuStreamQuery");
  const std::uint64_t questions = driver_calls(runtime, "cuStreamIsCapturing");
  const Allocation block = runtime.memory(kDevice).allocate(40ULL << 20, second);
  const std::uint64_t asked = driver_calls(runtime, "cuStreamQuery") - queries;
  CHECK(asked >= 1);
  CHECK(driver_calls(runtime, "cuStreamIsCapturing") - questions == asked);
}

TEST_CASE("a thread with a RelaxedCaptureScope polls beside a capture of another thread") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const Stream other = runtime.create_stream(kDevice);
  const EventLease mark = runtime.record(other);
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    const RelaxedCaptureScope relaxed(other.ref().context());
    { const RelaxedCaptureScope nested(other.ref().context()); }
    CHECK_FALSE(mark->is_done());
    other.ref().sync();
    CHECK(mark->is_done());
    CHECK(other.ref().is_done());
  }).join();
  const CapturedGraph graph(stream);
}

TEST_CASE("a RelaxedCaptureScope restores the thread's capture mode") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Stream other = simulation.runtime->create_stream(kDevice);
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  { const RelaxedCaptureScope relaxed(stream.ref().context()); }
  message_of<DriverError>([&] { other.ref().sync(); });
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("a foreign stream that was captured is not queried for its capture") {
  TappedDevice test(manual_progress());
  CUstream native = nullptr;
  {
    const ContextScope scope(test.context);
    REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING, 0) ==
            CUDA_SUCCESS);
  }
  const StreamRef stream(test.context, native);
  begin_capture(stream);
  CHECK(is_capturing(stream));
  const std::uint64_t asked = test.simulator.calls("cuStreamIsCapturing");
  CHECK(may_be_capturing(test.context));  // its handle may be gone
  CHECK(test.simulator.calls("cuStreamIsCapturing") == asked);
  CHECK(CapturedGraph(stream).nodes() == 0);
  CHECK_FALSE(is_capturing(stream));
  CHECK_FALSE(may_be_capturing(test.context));
  const ContextScope scope(test.context);
  REQUIRE(sim::berth_sim_cuStreamDestroy(native) == CUDA_SUCCESS);
}

}  // namespace capture_test
