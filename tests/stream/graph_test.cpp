// SPDX-License-Identifier: Apache-2.0
#include "berth/graph.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace graph_test {

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

struct GraphTest : Simulation {
  GraphTest() : Simulation(manual_progress(two_devices())) {}

  /// A graph of one piece of work.
  [[nodiscard]] Graph graph_of(const std::string& work) {
    GraphCapture capture(stream);
    log.submit(stream, work);
    return capture.end();
  }
  /// Whether the stream is in no capture and runs work.
  void check_usable() {
    CHECK_FALSE(stream.ref().is_capturing());
    log.submit(stream, "after");
    stream.ref().sync();
    CHECK(log.done().back() == "after");
  }

  const Stream stream = runtime->create_stream(kDevice);
};

/// The same without a Runtime, with refusals of single calls.
struct TappedGraph : TappedDevice {
  TappedGraph() : TappedDevice(manual_progress()) {}

  const Stream own = stream();
};

}  // namespace

TEST_CASE_FIXTURE(GraphTest, "captured work runs with each replay, in the order of the stream") {
  const Graph graph = graph_of("captured");
  CHECK(graph.device() == kDevice);
  CHECK(graph.native() != nullptr);
  stream.ref().sync();
  CHECK(log.done().empty());

  const Stream other = runtime->create_stream(kDevice);
  log.submit(stream, "before");
  graph.replay(stream);
  log.submit(stream, "between");
  graph.replay(stream);
  stream.ref().sync();
  graph.replay(other);
  graph.replay(runtime->default_stream(kDevice));
  other.ref().sync();
  runtime->default_stream(kDevice).sync();
  CHECK(log.done() == Names{"before", "captured", "between", "captured", "captured", "captured"});
}

TEST_CASE_FIXTURE(GraphTest, "an empty graph can be replayed") {
  GraphCapture capture(stream);
  const Graph graph = capture.end();
  CHECK(bool(graph));
  graph.replay(stream);
  check_usable();
}

TEST_CASE_FIXTURE(GraphTest, "a stream that waits for captured work is captured with it") {
  const Stream side = runtime->create_stream(kDevice);
  GraphCapture capture(stream);
  side.ref().wait(runtime->record(stream));
  log.submit(side, "aside");
  stream.ref().wait(runtime->record(side));
  const Graph graph = capture.end();
  CHECK_FALSE(side.ref().is_capturing());
  graph.replay(stream);
  stream.ref().sync();
  CHECK(log.done() == Names{"aside"});
}

TEST_CASE_FIXTURE(GraphTest, "a capture that is not ended is dropped, also by an exception") {
  {
    const GraphCapture capture(stream);
    log.submit(stream, "dropped");
  }
  check_usable();
  try {
    const GraphCapture capture(stream);
    log.submit(stream, "dropped");
    stream.ref().sync();  // refused, and the capture is not broken
  } catch (const StreamCaptured&) {
    log.submit(stream, "caught");
  }
  check_usable();
  CHECK(log.done() == Names{"after", "caught", "after"});
}

TEST_CASE_FIXTURE(GraphTest, "a capture within a capture of the stream is refused") {
  GraphCapture capture(stream);
  log.submit(stream, "captured");
  const std::string refusal =
      message_of<StreamCaptured>([&] { const GraphCapture nested(stream); });
  CHECK(contains(refusal, "a stream of cuda:0 cannot be captured while it is captured"));
  const Stream side = runtime->create_stream(kDevice);
  side.ref().wait(runtime->record(stream));
  message_of<StreamCaptured>([&] { const GraphCapture nested(side); });
  stream.ref().wait(runtime->record(side));

  // Another stream has a capture of its own.
  const Stream independent = runtime->create_stream(kDevice);
  GraphCapture second(independent);
  log.submit(independent, "second");
  const Graph of_second = second.end();
  const Graph graph = capture.end();
  graph.replay(stream);
  stream.ref().sync();
  of_second.replay(stream);
  stream.ref().sync();
  CHECK(log.done() == Names{"captured", "second"});
}

TEST_CASE_FIXTURE(GraphTest, "a default stream is not captured") {
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { const GraphCapture capture(runtime->default_stream(kDevice)); }),
                 "the legacy default stream of cuda:0 cannot be captured; accepted: a stream of a "
                 "pool, or of Runtime::create_stream()"));
  CHECK(contains(message_of<InvalidArgument>([&] {
                   const GraphCapture capture(runtime->per_thread_default_stream(kDevice));
                 }),
                 "the per-thread default stream"));
}

TEST_CASE_FIXTURE(GraphTest,
                  "an invalid capture ends without a graph, and the stream stays usable") {
  for (const bool ends : {true, false}) {
    CAPTURE(ends);
    {
      GraphCapture capture(stream);
      log.submit(stream, "lost");
      {
        const StreamGuard guard(stream);  // the program waits past berth
        CHECK(sim::berth_sim_cuStreamSynchronize(stream.ref().native()) ==
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      }
      if (ends) {
        const std::string message =
            message_of<DriverError>([&] { static_cast<void>(capture.end()); });
        CHECK(contains(message,
                       "the capture of a stream of cuda:0 gives no graph: a call that is not "
                       "permitted in a capture has made it invalid: cuStreamEndCapture: "
                       "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
        check_usable();
        // The old capture leaves a new one alone.
        const GraphCapture next(stream);
        message_of<InvalidArgument>([&] { static_cast<void>(capture.end()); });
        CHECK(stream.ref().is_capturing());
      }
    }
    check_usable();
  }
}

TEST_CASE_FIXTURE(GraphTest,
                  "a GraphCapture that was ended elsewhere does not affect the next capture") {
  std::optional<GraphCapture> capture(std::in_place, stream);
  { const CapturedGraph taken(stream); }
  message_of<DriverError>([&] { static_cast<void>(capture->end()); });
  const GraphCapture next(stream);
  capture.reset();
  CHECK(stream.ref().is_capturing());
}

TEST_CASE_FIXTURE(GraphTest, "a capture with an unjoined stream gives no graph") {
  const Stream side = runtime->create_stream(kDevice);
  GraphCapture capture(stream);
  side.ref().wait(runtime->record(stream));
  log.submit(side, "aside");
  const std::string message = message_of<DriverError>([&] { static_cast<void>(capture.end()); });
  CHECK(contains(message, "a stream that was captured with it has not been waited for"));
  CHECK_FALSE(side.ref().is_capturing());
  check_usable();
}

TEST_CASE_FIXTURE(GraphTest, "a capture is ended once, by the thread that began it") {
  GraphCapture capture(stream);
  log.submit(stream, "captured");
  std::string refusal;
  std::thread([&] {
    refusal = message_of<InvalidArgument>([&] { static_cast<void>(capture.end()); });
  }).join();
  CHECK(contains(refusal, "accepted: the thread that began it"));
  const Graph graph = capture.end();
  CHECK(contains(message_of<InvalidArgument>([&] { static_cast<void>(capture.end()); }),
                 "has ended"));
  graph.replay(stream);
  stream.ref().sync();
  CHECK(log.done() == Names{"captured"});
}

TEST_CASE_FIXTURE(GraphTest, "a capture is not ended by another thread with a reused id") {
  const Stream own = runtime->create_stream(kDevice);
  std::optional<GraphCapture> capture;
  std::thread::id began;
  std::thread([&] {
    began = std::this_thread::get_id();
    capture.emplace(own);
  }).join();
  std::string refusal;
  for (int attempt = 0; attempt < 100 && refusal.empty(); ++attempt) {
    std::thread([&] {
      if (std::this_thread::get_id() != began) return;
      refusal = message_of<InvalidArgument>([&] { static_cast<void>(capture->end()); });
    }).join();
  }
  CHECK(contains(refusal, "accepted: the thread that began it"));
  errors_expected = true;  // nobody can end the capture
}

TEST_CASE_FIXTURE(GraphTest, "a graph may be destroyed while it is replayed") {
  std::optional<Graph> graph = graph_of("captured");
  graph->replay(stream);
  graph->replay(stream);
  CHECK(log.done().empty());
  graph.reset();
  stream.ref().sync();
  CHECK(log.done() == Names{"captured", "captured"});
}

TEST_CASE_FIXTURE(GraphTest, "a replay on a captured stream or on another device is refused") {
  const Graph graph = graph_of("captured");
  const Stream busy = runtime->create_stream(kDevice);
  GraphCapture capture(busy);
  log.submit(busy, "in the capture");
  CHECK(contains(message_of<StreamCaptured>([&] { graph.replay(busy); }),
                 "cannot be given a graph to replay while it is captured"));
  graph.replay(stream);  // beside the capture
  const Graph other = capture.end();
  stream.ref().sync();
  other.replay(stream);
  stream.ref().sync();
  CHECK(log.done() == Names{"captured", "in the capture"});

  const Stream elsewhere = runtime->create_stream(Device::cuda(1));
  CHECK(contains(message_of<InvalidArgument>([&] { graph.replay(elsewhere); }),
                 "a graph of cuda:0 cannot be replayed on a stream of cuda:1"));
  const Graph empty;
  CHECK_FALSE(bool(empty));
  CHECK(empty.native() == nullptr);
  message_of<InvalidArgument>([&] { empty.replay(stream); });
  message_of<InvalidArgument>([&] { static_cast<void>(empty.device()); });
}

TEST_CASE_FIXTURE(GraphTest, "a graph that is moved has one owner") {
  Graph first = graph_of("first");
  Graph second = std::move(first);
  CHECK_FALSE(bool(first));
  first = graph_of("new");
  second = std::move(first);  // the first graph goes
  CHECK_FALSE(bool(first));
  Graph& same = second;
  second = std::move(same);
  second.replay(stream);
  stream.ref().sync();
  CHECK(log.done() == Names{"new"});
  CHECK(simulator.live().graph_execs == 1);
}

TEST_CASE_FIXTURE(GraphTest, "a graph keeps the pinned blocks of its copies until it is gone") {
  const Allocation device = runtime->memory(kDevice).allocate(1000, stream);
  std::optional<Graph> graph;
  {
    const Allocation source = runtime->pinned_memory().allocate(1000);
    GraphCapture capture(stream);
    runtime->copier().copy_async(device.data(), source.data(), 1000, stream);
    graph = capture.end();
  }
  const auto in_graphs = [&] {
    return runtime->pinned_memory().counters().blocks_in_graphs.current;
  };
  CHECK(in_graphs() == 1);
  graph->replay(stream);
  graph.reset();
  stream.ref().sync();
  while (in_graphs() > 0) std::this_thread::yield();  // the driver tells on a thread of its own
  CHECK(runtime->pinned_memory().counters().blocks_pending.current == 0);
}

TEST_CASE_FIXTURE(TappedGraph, "a capture that the driver refuses does not change the stream") {
  for (const DriverCall call :
       {DriverCall::stream_is_capturing, DriverCall::stream_begin_capture}) {
    tap.refuse(call, CUDA_ERROR_OUT_OF_MEMORY);
    message_of<DriverError>([&] { const GraphCapture capture(own); });
    CHECK_FALSE(own.ref().is_capturing());
  }
  GraphCapture capture(own);
  static_cast<void>(capture.end());
}

TEST_CASE_FIXTURE(TappedGraph, "a capture whose end is refused is dropped later") {
  {
    GraphCapture capture(own);
    log.submit(own, "dropped");
    tap.refuse(DriverCall::stream_end_capture, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(contains(message_of<DriverError>([&] { static_cast<void>(capture.end()); }),
                   "the driver refuses its end: cuStreamEndCapture: CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(own.ref().is_capturing());
  }
  CHECK_FALSE(own.ref().is_capturing());
  CHECK(reports.all().empty());

  std::optional<GraphCapture> capture(std::in_place, own);
  tap.refuse(DriverCall::stream_end_capture, CUDA_ERROR_OUT_OF_MEMORY);
  capture.reset();
  CHECK(reports.all().size() == 1);
  CHECK(contains(reports.all().at(0).message, "cuStreamEndCapture"));
  CHECK(own.ref().is_capturing());
  const CapturedGraph left(own);
}

TEST_CASE_FIXTURE(TappedGraph, "a failed instantiation leaves nothing") {
  {
    GraphCapture capture(own);
    log.submit(own, "dropped");
    tap.refuse(DriverCall::graph_instantiate, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(contains(message_of<DriverError>([&] { static_cast<void>(capture.end()); }),
                   "cuGraphInstantiateWithFlags"));
    CHECK_FALSE(own.ref().is_capturing());
    CHECK(simulator.live().graphs == 0);
    message_of<InvalidArgument>([&] { static_cast<void>(capture.end()); });
  }
  CHECK_FALSE(own.ref().is_capturing());
}

TEST_CASE_FIXTURE(TappedGraph, "after a failed replay the next one succeeds") {
  GraphCapture capture(own);
  log.submit(own, "captured");
  const Graph graph = capture.end();
  for (const DriverCall call : {DriverCall::stream_is_capturing, DriverCall::graph_launch}) {
    tap.refuse(call, CUDA_ERROR_OUT_OF_MEMORY);
    message_of<DriverError>([&] { graph.replay(own); });
  }
  graph.replay(own);
  own.ref().sync();
  CHECK(log.done() == Names{"captured"});
}

TEST_CASE_FIXTURE(TappedGraph, "a graph whose destruction fails is reported") {
  CUgraphExec kept = nullptr;
  {
    GraphCapture capture(own);
    const Graph graph = capture.end();
    kept = graph.native();
    tap.refuse(DriverCall::graph_exec_destroy, CUDA_ERROR_UNKNOWN);
  }
  CHECK(reports.all().size() == 1);
  CHECK(contains(reports.all().at(0).message, "cuGraphExecDestroy"));
  driver.graph_exec_destroy(kept);
}

TEST_CASE("graphs are refused on a driver without them") {
  for (const DriverCall call : {DriverCall::stream_begin_capture, DriverCall::graph_launch}) {
    const sim::Simulator simulator{sim::Config()};
    DriverTap tap;
    tap.hide(call);
    const Driver driver(tap.source(), {});
    const Nvml nvml(tap.source());
    const DeviceRegistry registry(driver, nvml);
    const Stream stream(registry.context(kDevice), {});
    CHECK(contains(message_of<NotSupported>([&] { const GraphCapture capture(stream); }),
                   "has no CUDA graphs: it lacks cu"));
  }
}

}  // namespace graph_test
