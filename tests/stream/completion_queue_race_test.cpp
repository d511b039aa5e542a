// SPDX-License-Identifier: Apache-2.0
// Completion callbacks of many threads and streams at once, and the order of work that a callback
// submits.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/completion_queue.hpp"

#include "support/simulation.hpp"

namespace completion_queue_race_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

sim::Config in_mode(sim::Progress progress) {
  sim::Config config;
  config.progress = progress;
  return config;
}

class Latch {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// Threads that each submit callbacks to streams of their own, in turn.
void submit_from_many_threads(sim::Progress progress, bool finish_at_once) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kStreamsEach = 8;
  constexpr std::size_t kCallbacks = 10'000;
  Simulation simulation(in_mode(progress));
  Runtime& runtime = *simulation.runtime;
  std::vector<StreamLease> streams;
  for (std::size_t index = 0; index < kThreads * kStreamsEach; ++index)
    streams.push_back(runtime.streams(kDevice).acquire());
  std::vector<std::size_t> next(streams.size());  // by stream; of the callback thread alone
  std::atomic<std::size_t> called = 0;
  std::atomic<std::size_t> out_of_order = 0;
  std::atomic<std::size_t> failed = 0;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t index = 0; index < kCallbacks / kThreads; ++index) {
        const std::size_t stream = thread * kStreamsEach + index % kStreamsEach;
        runtime.completions().when_done(
            streams[stream], [&, stream, turn = index / kStreamsEach](std::exception_ptr failure) {
              if (next[stream]++ != turn) ++out_of_order;
              if (failure) ++failed;
              ++called;
            });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!finish_at_once) {
    for (const StreamLease& stream : streams) stream->sync();
  }
  runtime.completions().finish();
  CHECK(called == kCallbacks);
  CHECK(out_of_order == 0);
  CHECK(failed == 0);
  CHECK(runtime.completions().outstanding() == 0);
  CHECK(runtime.events(kDevice).leases_live() == 0);
}

}  // namespace

TEST_CASE("ten thousand callbacks of several threads are each called once, in stream order") {
  submit_from_many_threads(sim::Progress::eager, false);
  submit_from_many_threads(sim::Progress::random, false);
  submit_from_many_threads(sim::Progress::timed, false);
}

TEST_CASE("ten thousand outstanding callbacks are called at the end, in stream order") {
  submit_from_many_threads(sim::Progress::manual, true);
  submit_from_many_threads(sim::Progress::random, true);
}

TEST_CASE("work that a callback submits to another stream is ordered after the completed work") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream writer = runtime.create_stream(kDevice);
  const Stream reader = runtime.create_stream(kDevice);
  const Allocation block = runtime.memory(kDevice).allocate(1024, writer);
  const auto use = [&](StreamRef stream, bool writes) {
    const StreamGuard guard(stream);
    const auto address = reinterpret_cast<CUdeviceptr>(block.data());
    CHECK(simulation.simulator.launch(stream.native(), 1, {{address, 1024, writes}}));
  };
  Latch latch;
  use(writer, true);
  runtime.completions().when_done(writer, [&](const std::exception_ptr&) {
    use(reader, false);
    latch.open();
  });
  latch.wait();
  CHECK(simulation.simulator.take_findings().empty());
  reader.ref().sync();
}

}  // namespace completion_queue_race_test
