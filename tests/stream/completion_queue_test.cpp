// SPDX-License-Identifier: Apache-2.0
#include "berth/completion_queue.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "support/captured_graph.hpp"
#include "support/child_process.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace completion_queue_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

const Device kDevice = Device::cuda(0);

/// What callbacks have been called, with "!" behind the name of one that got a failure.
class Calls {
 public:
  CompletionQueue::Callback named(std::string name) {
    return [this, name = std::move(name)](const std::exception_ptr& failure) {
      note(name + (failure ? "!" : ""));
      if (!failure) return;
      const std::lock_guard lock(mutex_);
      failure_ = failure;
    };
  }
  void note(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.push_back(name);
    changed_.notify_all();
  }
  /// All of them, once there are `count`.
  Names wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return names_.size() >= count; });
    return names_;
  }
  Names now() { return wait_for(0); }
  /// That the last callback with "!" got.
  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Names names_;
  std::exception_ptr failure_;
};

/// Threads of this process that run callbacks of berth's.
std::size_t callback_threads() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    count += name == "berth callbacks" ? 1 : 0;
  }
  return count;
}

/// A queue over a driver whose calls a test refuses.
struct QueueTest : TappedDevice {
  QueueTest() : TappedDevice(manual_progress()) {}
  ~QueueTest() {
    queue.finish();
    simulator.run_all();
  }

  Calls calls;
  CompletionQueue queue{[this](DeviceContext&) -> EventPool& { return events; }};
};

}  // namespace

TEST_CASE("a callback is called after the work that the stream held, on a thread of berth's") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  CompletionQueue& queue = simulation.runtime->completions();
  WorkLog& log = simulation.log;
  Calls calls;
  log.submit(stream, "work");
  std::thread::id caller;
  queue.when_done(stream, [&](const std::exception_ptr& failure) {
    caller = std::this_thread::get_id();
    CHECK(log.done() == Names{"work"});
    calls.note(failure ? "failed" : "done");
  });
  log.submit(stream, "later");
  CHECK(queue.outstanding() == 1);
  CHECK(simulation.run_next(stream));  // the work
  CHECK(simulation.run_next(stream));  // the mark
  CHECK(simulation.run_next(stream));  // the notice
  CHECK(calls.wait_for(1) == Names{"done"});
  CHECK(caller != std::this_thread::get_id());
  CHECK(queue.outstanding() == 0);
  CHECK(log.done() == Names{"work"});
  simulation.run_stream(stream);
}

TEST_CASE("callbacks of one stream are called in the order in which they were submitted") {
  for (const sim::Progress progress :
       {sim::Progress::eager, sim::Progress::manual, sim::Progress::random, sim::Progress::timed}) {
    CAPTURE(int(progress));
    sim::Config config;
    config.progress = progress;
    Simulation simulation(config);
    const Stream stream = simulation.runtime->create_stream(kDevice);
    Calls calls;
    Names expected;
    for (int index = 0; index < 100; ++index) {
      expected.push_back(std::to_string(index));
      simulation.runtime->completions().when_done(stream, calls.named(expected.back()));
    }
    stream.ref().sync();
    CHECK(calls.wait_for(100) == expected);
  }
}

TEST_CASE("a busy stream delays no callback of another stream") {
  Simulation simulation(manual_progress());
  const Stream slow = simulation.runtime->create_stream(kDevice);
  const Stream quick = simulation.runtime->create_stream(kDevice);
  CompletionQueue& queue = simulation.runtime->completions();
  Calls calls;
  simulation.log.submit(slow, "work");
  queue.when_done(slow, calls.named("slow"));
  queue.when_done(quick, calls.named("quick"));
  simulation.run_stream(quick);
  CHECK(calls.wait_for(1) == Names{"quick"});
  CHECK(queue.outstanding() == 1);
  simulation.run_stream(slow);
  CHECK(calls.wait_for(2) == Names{"quick", "slow"});
}

TEST_CASE("default streams have callbacks too") {
  Simulation simulation;
  Calls calls;
  CompletionQueue& queue = simulation.runtime->completions();
  queue.when_done(simulation.runtime->default_stream(kDevice), calls.named("legacy"));
  CHECK(calls.wait_for(1) == Names{"legacy"});
  queue.when_done(simulation.runtime->stream(kDevice, CU_STREAM_PER_THREAD), calls.named("own"));
  CHECK(calls.wait_for(2) == Names{"legacy", "own"});
}

TEST_CASE("a callback may use berth and CUDA, wait for streams, and submit callbacks") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const Stream other = runtime.create_stream(kDevice);
  Calls calls;
  runtime.completions().when_done(stream, [&](const std::exception_ptr&) {
    const Allocation block = runtime.memory(kDevice).allocate(1024, other);
    runtime.copier().fill_async(block.data(), 1, 1024, other);
    other.ref().sync();
    runtime.completions().when_done(other, calls.named("second"));
    calls.note("first");
  });
  CHECK(calls.wait_for(2) == Names{"first", "second"});
}

TEST_CASE("a stream may be destroyed while its callbacks are outstanding") {
  Simulation simulation(manual_progress());
  Calls calls;
  {
    const Stream stream = simulation.runtime->create_stream(kDevice);
    simulation.log.submit(stream, "work");
    simulation.runtime->completions().when_done(stream, calls.named("done"));
  }
  CHECK(calls.now().empty());
  simulation.simulator.run_all();
  CHECK(calls.wait_for(1) == Names{"done"});
}

TEST_CASE("the first callback starts the thread, and the Runtime's end ends it") {
  Simulation simulation;
  const std::size_t before = callback_threads();
  const Stream stream = simulation.runtime->create_stream(kDevice);
  CompletionQueue& queue = simulation.runtime->completions();
  CHECK(callback_threads() == before);
  Calls calls;
  queue.when_done(stream, calls.named("first"));
  queue.when_done(stream, calls.named("second"));
  calls.wait_for(2);
  CHECK(callback_threads() == before + 1);
  queue.finish();
  CHECK(callback_threads() == before);
}

TEST_CASE("while nothing is outstanding the thread calls no driver") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  Calls calls;
  for (int round = 0; round < 2; ++round) {
    simulation.runtime->completions().when_done(stream, calls.named("done"));
    calls.wait_for(std::size_t(round) + 1);
  }
  // Longer than several probes would take.
  const std::uint64_t asked = driver_calls(*simulation.runtime, "cuEventQuery");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(driver_calls(*simulation.runtime, "cuEventQuery") == asked);
}

TEST_CASE("the Runtime's end waits for outstanding work, and calls every callback") {
  Calls calls;
  WorkLog log;
  {
    Simulation simulation(manual_progress());
    Runtime& runtime = *simulation.runtime;
    const StreamLease first = runtime.streams(kDevice).acquire();
    const StreamLease second = runtime.streams(kDevice).acquire();
    log.submit(first, "work");
    runtime.completions().when_done(first, [&](const std::exception_ptr& failure) {
      CHECK_FALSE(failure);
      CHECK(log.done() == Names{"work"});
      // All of the Runtime is still there; only further callbacks are not accepted.
      CHECK(runtime.memory(kDevice).allocate(1024, second).data() != nullptr);
      message_of<InvalidArgument>(
          [&] { runtime.completions().when_done(second, calls.named("too late")); });
      calls.note("first");
    });
    runtime.completions().when_done(second, calls.named("second"));
    runtime.completions().finish();
    CHECK(calls.now() == Names{"first", "second"});
    runtime.completions().finish();
    simulation.simulator.run_all();
  }
  CHECK(calls.now().size() == 2);
}

TEST_CASE("the destructor of a Runtime runs outstanding callbacks first") {
  Calls calls;
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const StreamRef legacy = runtime.default_stream(kDevice);
  runtime.completions().when_done(legacy, [&](const std::exception_ptr&) {
    CHECK(runtime.memory(kDevice).allocate(1024, legacy).data() != nullptr);
    calls.note("called");
  });
  simulation.runtime.reset();
  CHECK(calls.now() == Names{"called"});
}

TEST_CASE("work that fails at the Runtime's end fails its callback") {
  QueueTest test;
  const Stream stream = test.stream();
  test.queue.when_done(stream, test.calls.named("first"));
  test.queue.when_done(stream, test.calls.named("second"));
  test.tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_ILLEGAL_ADDRESS);
  test.queue.finish();
  CHECK(test.calls.now() == Names{"first!", "second"});
  const std::string message =
      message_of<DriverError>([&] { std::rethrow_exception(test.calls.failure()); });
  CHECK(contains(message, "cuEventSynchronize"));
}

TEST_CASE("a device that fails while work is pending fails its callbacks, in their order") {
  sim::Config config = manual_progress();
  QueueTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "work");
  test.queue.when_done(stream, test.calls.named("first"));
  test.queue.when_done(stream, test.calls.named("second"));
  // Its host functions never come.
  test.tap.refuse_all(DriverCall::event_query, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(test.calls.wait_for(2) == Names{"first!", "second!"});
  const std::string message =
      message_of<DriverError>([&] { std::rethrow_exception(test.calls.failure()); });
  CHECK(contains(message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(test.queue.outstanding() == 0);
  CHECK(test.events.leases_live() == 0);
  // Where they come after all, nobody listens.
  test.tap.allow(DriverCall::event_query);
  test.simulator.run_all();
  test.queue.finish();
  CHECK(test.calls.now().size() == 2);
}

TEST_CASE("a callback whose mark cannot be queried is called when its work is done") {
  QueueTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "work");
  bool was_over = false;
  test.queue.when_done(stream, [&](const std::exception_ptr& failure) {
    was_over = test.log.is_done("work");
    test.calls.note(failure ? "failed" : "done");
  });
  test.tap.refuse(DriverCall::event_query, CUDA_ERROR_UNKNOWN);
  CHECK(test.calls.wait_for(1) == Names{"failed"});
  CHECK(was_over);
}

TEST_CASE("a device error after the work is passed to the callback") {
  QueueTest test;
  const Stream stream = test.stream();
  test.queue.when_done(stream, test.calls.named("done"));
  test.tap.refuse_all(DriverCall::event_query, CUDA_ERROR_LAUNCH_FAILED);
  test.run_stream(stream);
  CHECK(test.calls.wait_for(1) == Names{"done!"});
}

TEST_CASE("a callback is called although the driver loses its host function") {
  QueueTest test;
  const Stream stream = test.stream();
  test.tap.refuse(DriverCall::launch_host_func, CUDA_SUCCESS);
  test.queue.when_done(stream, test.calls.named("done"));
  test.run_stream(stream);
  CHECK(test.calls.wait_for(1) == Names{"done"});
}

TEST_CASE("a callback that cannot be submitted is never called, and leaves nothing") {
  QueueTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "work");
  auto token = std::make_shared<int>();
  const auto callback = [&, token](const std::exception_ptr&) { test.calls.note("called"); };
  for (const DriverCall refused : {DriverCall::event_record, DriverCall::launch_host_func}) {
    test.tap.refuse(refused, CUDA_ERROR_OUT_OF_MEMORY);
    message_of<DriverError>([&] { test.queue.when_done(stream, callback); });
    CHECK(test.queue.outstanding() == 0);
    CHECK(test.events.leases_live() == 0);
    CHECK(token.use_count() == 2);  // the test's, and that of its lambda
  }
  message_of<InvalidArgument>([&] { test.queue.when_done(stream, nullptr); });
  test.run_stream(stream);
  test.queue.finish();
  CHECK(test.calls.now().empty());
}

TEST_CASE("the captures of a callback are destroyed after its call") {
  Simulation simulation;
  Calls calls;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  auto token = std::make_shared<int>();
  simulation.runtime->completions().when_done(
      stream, [&calls, token](const std::exception_ptr&) { calls.note("first"); });
  calls.wait_for(1);
  simulation.runtime->completions().finish();
  CHECK(token.use_count() == 1);
}

TEST_CASE("an exception of a callback is reported, and the next callback is called") {
  Simulation simulation;
  simulation.errors_expected = true;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  Calls calls;
  CompletionQueue& queue = simulation.runtime->completions();
  queue.when_done(stream,
                  [](const std::exception_ptr&) { throw std::runtime_error("the user's"); });
  queue.when_done(stream, [](const std::exception_ptr&) { throw 42; });
  queue.when_done(stream, calls.named("next"));
  calls.wait_for(1);
  CHECK(simulation.reports.count(Severity::error) == 2);
  CHECK(simulation.reports.mention("the user's"));
}

TEST_CASE("a callback on a captured stream throws, and the capture stays valid") {
  Simulation simulation(manual_progress());
  const Stream stream = simulation.runtime->create_stream(kDevice);
  Calls calls;
  begin_capture(stream);
  simulation.log.submit(stream, "captured");
  message_of<StreamCaptured>(
      [&] { simulation.runtime->completions().when_done(stream, calls.named("never")); });
  CHECK(simulation.runtime->completions().outstanding() == 0);
  const CapturedGraph graph(stream);
  CHECK(graph.nodes() == 1);
}

TEST_CASE("outstanding callbacks break no capture of another thread") {
  QueueTest test;
  const Stream stream = test.stream();
  const Stream captured = test.stream();
  test.log.submit(stream, "work");
  test.queue.when_done(stream, test.calls.named("done"));
  begin_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
  Calls probes;
  test.tap.after(DriverCall::event_query, [&] { probes.note("probed"); });
  probes.wait_for(1);
  const CapturedGraph graph(captured);
}

TEST_CASE("callbacks throw in a forked child, which can exit") {
  Simulation simulation(manual_progress());
  Calls calls;
  const StreamRef legacy = simulation.runtime->default_stream(kDevice);
  simulation.runtime->completions().when_done(legacy, calls.named("done"));
  CHECK(exit_code_of([&] {
          try {
            simulation.runtime->completions().when_done(legacy, calls.named("child"));
          } catch (const NotSupported&) {
            simulation.runtime->completions().finish();
            return 7;
          }
          return 1;
        }) == 7);
  simulation.run_stream(legacy);
  CHECK(calls.wait_for(1) == Names{"done"});
}

TEST_CASE("alone: finish() in a callback" * doctest::skip()) {
  default_abort();
  Simulation simulation;
  CompletionQueue& queue = simulation.runtime->completions();
  queue.when_done(simulation.runtime->default_stream(kDevice), [&](auto) { queue.finish(); });
  for (;;) std::this_thread::yield();
}

TEST_CASE("finish() in a callback stops the process, and the program learns why") {
  CHECK(contains(last_words_of_case("alone: finish() in a callback").value_or("it continues"),
                 "CompletionQueue::finish() is called, or its Runtime destroyed, in a callback"));
}

TEST_CASE("the event that marks a callback's work is free while the callback runs") {
  RuntimeOptions options;
  options.event_pool.events_max = 1;
  Simulation simulation({}, options);
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  bool is_free = false;
  runtime.completions().when_done(stream, [&](const std::exception_ptr&) {
    try {
      const EventLease lease = runtime.events(kDevice).acquire();
      is_free = true;
    } catch (const Exhausted&) {
      return;
    }
  });
  runtime.completions().finish();
  CHECK(is_free);
}

TEST_CASE("only the oldest mark of a device's pending callbacks is queried") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  simulation.log.submit(stream, "work");
  constexpr std::uint64_t kCallbacks = 200;
  for (std::uint64_t callback = 0; callback < kCallbacks; ++callback)
    runtime.completions().when_done(stream, [](const std::exception_ptr&) {});
  const std::uint64_t before = driver_calls(runtime, "cuEventQuery");
  const auto asked = [&] { return driver_calls(runtime, "cuEventQuery") - before; };
  while (asked() < 2) std::this_thread::yield();
  CHECK(asked() < kCallbacks / 2);
  stream.ref().sync();
  runtime.completions().finish();
}

TEST_CASE("a callback that was called counts as submitted despite a later driver error") {
  TappedDevice test;
  CompletionQueue queue([&](DeviceContext&) -> EventPool& { return test.events; });
  const Stream stream = test.stream();
  std::atomic<int> calls = 0;
  test.tap.before(DriverCall::launch_host_func, [&] {
    while (calls == 0) std::this_thread::yield();  // a look at its mark finds that it has passed
  });
  test.tap.refuse(DriverCall::launch_host_func, CUDA_ERROR_UNKNOWN);
  queue.when_done(stream, [&](const std::exception_ptr&) { ++calls; });
  queue.finish();
  CHECK(calls == 1);
}

TEST_CASE("a sleeping queue handles a callback whose device fails at once") {
  TappedDevice test(manual_progress());
  CompletionQueue queue([&](DeviceContext&) -> EventPool& { return test.events; });
  const Stream stream = test.stream();
  {
    std::atomic<bool> is_called = false;
    queue.when_done(stream, [&](const std::exception_ptr&) { is_called = true; });
    test.run_stream(stream);
    while (!is_called) std::this_thread::yield();
  }
  // With nothing to look at the thread sleeps until it is told, which the host function never does.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<bool> is_told = false;
  test.tap.after(DriverCall::launch_host_func,
                 [&] { test.tap.refuse_all(DriverCall::event_query, CUDA_ERROR_UNKNOWN); });
  queue.when_done(stream, [&](const std::exception_ptr& failure) { is_told = failure != nullptr; });
  while (!is_told) std::this_thread::yield();
  test.tap.allow(DriverCall::event_query);
  test.run_stream(stream);
  queue.finish();
}

}  // namespace completion_queue_test
