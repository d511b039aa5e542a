// SPDX-License-Identifier: Apache-2.0
// The legacy and the per-thread default stream: what works with them, and what is refused.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"

namespace default_streams_test {

using namespace berth;
using namespace berth::test;

namespace {

using Names = std::vector<std::string>;

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("default streams are known by each of their handles") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const StreamRef legacy = runtime.default_stream(kDevice);
  const StreamRef also_legacy = runtime.stream(kDevice, CU_STREAM_LEGACY);
  const StreamRef per_thread = runtime.per_thread_default_stream(kDevice);
  const Stream stream = runtime.create_stream(kDevice);
  CHECK(legacy == also_legacy);
  CHECK(legacy == StreamRef::legacy_default(legacy.context()));
  CHECK(per_thread == runtime.stream(kDevice, CU_STREAM_PER_THREAD));
  CHECK(legacy != per_thread);
  CHECK(legacy != stream.ref());
  for (const StreamRef each : {legacy, also_legacy, per_thread, stream.ref()}) {
    CHECK(each.is_legacy_default() == (each == legacy));
    CHECK(each.is_per_thread_default() == (each == per_thread));
  }
}

TEST_CASE("the legacy default stream is one stream under both handles, for order and memory") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const StreamRef legacy = runtime.default_stream(kDevice);
  const StreamRef also_legacy = runtime.stream(kDevice, CU_STREAM_LEGACY);
  void* first = nullptr;
  {
    const Allocation block = runtime.memory(kDevice).allocate(8 << 20, legacy);
    first = block.data();
  }
  const std::uint64_t calls = driver_calls(runtime);
  CHECK(runtime.memory(kDevice).allocate(8 << 20, also_legacy).data() == first);
  CHECK(driver_calls(runtime) == calls);
  runtime.join(legacy, {also_legacy});
  CHECK(driver_calls(runtime, "cuEventRecord") == 0);
}

TEST_CASE("the per-thread default stream is a different stream on each thread") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  const StreamRef per_thread = runtime.per_thread_default_stream(kDevice);
  simulation.log.submit(per_thread, "mine");
  CHECK_FALSE(per_thread.is_done());
  SecondThread other;
  other.run([&] {
    CHECK(per_thread.is_done());
    per_thread.sync();
  });
  CHECK(simulation.log.done().empty());
  per_thread.sync();
  CHECK(simulation.log.done() == Names{"mine"});
}

TEST_CASE("order, events and forks work with the per-thread default stream") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const StreamRef per_thread = runtime.per_thread_default_stream(kDevice);
  const Stream stream = runtime.create_stream(kDevice);
  log.submit(per_thread, "first");
  const EventLease mark = runtime.record(per_thread);
  stream.ref().wait(mark);
  log.submit(stream, "second");
  runtime.join(per_thread, {stream});
  {
    const StreamGuard guard(per_thread);
    const ForkJoin side = runtime.fork(runtime.current_stream(kDevice), 1);
    log.submit(side[0], "third");
  }
  log.submit(per_thread, "fourth");
  // Of the thread that recorded it, whoever asks.
  SecondThread other;
  other.run([&] {
    CHECK_FALSE(mark->is_done());
    mark->sync();
  });
  CHECK(log.done() == Names{"first"});
  per_thread.sync();
  CHECK(log.done() == Names{"first", "second", "third", "fourth"});
}

TEST_CASE("copies of pageable memory work on the per-thread default stream") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const StreamRef per_thread = runtime.per_thread_default_stream(kDevice);
  const Allocation block = runtime.memory(kDevice).allocate(1000, stream);
  const std::vector<char> sent(1000, 'x');
  std::vector<char> received(1000);
  runtime.copier().copy(block.data(), sent.data(), sent.size(), per_thread);
  runtime.copier().copy(received.data(), block.data(), sent.size(), per_thread);
  CHECK(sent == received);
}

TEST_CASE("functions that would store the per-thread default stream refuse it") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kDevice);
  const StreamRef per_thread = runtime.per_thread_default_stream(kDevice);
  DeviceAllocator& memory = runtime.memory(kDevice);
  const Allocation block = memory.allocate(1000, stream);
  const Allocation pinned = runtime.pinned_memory().allocate(1000);
  const auto refuses = [](auto&& action) {
    CHECK(contains(message_of<InvalidArgument>(action), "per-thread default stream"));
  };
  refuses([&] { return memory.allocate(1000, per_thread); });
  refuses([&] { memory.record_stream(block.data(), per_thread); });
  refuses([&] { runtime.pinned_memory().record_stream(pinned.data(), per_thread); });
  refuses([&] { runtime.copier().copy_async(block.data(), pinned.data(), 1000, per_thread); });
  const MemoryPool pool = memory.create_pool({.name = "pool"});
  refuses([&] { return PoolScope::on_stream(pool, per_thread); });
}

}  // namespace default_streams_test
