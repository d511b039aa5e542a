// SPDX-License-Identifier: Apache-2.0
// A stream pool at its bound: if other threads cache idle streams, and if none is left.
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/fork_join.hpp"
#include "berth/stream_pool.hpp"

#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/meanwhile.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace stream_shortage_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

RuntimeOptions bounded(std::size_t streams_max, StreamShortage on_shortage) {
  RuntimeOptions options;
  options.stream_pool = {.streams_max = streams_max, .on_shortage = on_shortage};
  return options;
}

}  // namespace

TEST_CASE("a stream cached by another thread is taken before the shortage policy applies") {
  for (const StreamShortage policy :
       {StreamShortage::share, StreamShortage::wait, StreamShortage::fail}) {
    Simulation simulation({}, bounded(2, policy));
    StreamPool& pool = simulation.runtime->streams(kDevice);
    std::atomic<int> step = 0;
    std::thread keeper([&] {
      { const StreamLease kept = pool.acquire(); }
      step = 1;
      while (step != 2) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    const StreamLease first = pool.acquire();
    const StreamLease second = pool.acquire();
    CHECK(first.ref() != second.ref());
    CHECK(pool.streams_created() == 2);
    CHECK(pool.leases_live() == 2);
    step = 2;
    keeper.join();
  }
}

TEST_CASE("a thread caches no stream while another thread waits") {
  Simulation simulation({}, bounded(1, StreamShortage::wait));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> held = pool.acquire();
  std::atomic<bool> has_lease = false;
  Meanwhile waiter([&] {
    const StreamLease lease = pool.acquire();
    has_lease = true;
  });
  waiter.start();
  REQUIRE_FALSE(waiter.was_done());
  const StreamLease urgent = pool.acquire(-1);  // which the pool has yet to create
  held.reset();
  for (int look = 0; look < 10'000 && !has_lease; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(has_lease);
  // Otherwise this thread has kept the stream. The end of a thread that takes it over wakes the
  // waiter.
  if (!has_lease) std::thread([lease = pool.acquire()] {}).join();
  waiter.join();
}

TEST_CASE("streams cached by a thread are available to others when it ends") {
  Simulation simulation({}, bounded(1, StreamShortage::fail));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::thread([&] { const StreamLease kept = pool.acquire(); }).join();
  const StreamLease lease = pool.acquire();
  CHECK(pool.streams_created() == 1);
}

TEST_CASE(
    "with policy fail the error names pool, bound and option, and a returned stream is reused") {
  Simulation simulation({}, bounded(2, StreamShortage::fail));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> first = pool.acquire();
  const StreamLease second = pool.acquire();
  const std::string message = message_of<Exhausted>([&] { return pool.acquire(); });
  CHECK(contains(message, "streams of cuda:0: all 2 of priority 0 are on lease"));
  CHECK(contains(message, "StreamPoolOptions::streams_max"));
  CHECK(pool.leases_live() == 2);
  { const StreamLease urgent = pool.acquire(-1); }  // another priority has its own
  CUstream_st* const back = first->ref().native();
  first.reset();
  CHECK(pool.acquire().ref().native() == back);
}

TEST_CASE("with policy wait a thread waits until a stream is returned, on any thread") {
  Simulation simulation({}, bounded(1, StreamShortage::wait));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  for (const bool gives_back_elsewhere : {false, true}) {
    CAPTURE(gives_back_elsewhere);
    std::optional<StreamLease> held = pool.acquire();
    CUstream_st* const native = held->ref().native();
    std::atomic<bool> has_lease = false;
    std::thread waiter([&] {
      const StreamLease lease = pool.acquire();
      CHECK(lease.ref().native() == native);
      has_lease = true;
    });
    for (int turn = 0; turn < 2000; ++turn) std::this_thread::yield();
    CHECK_FALSE(has_lease.load());
    if (gives_back_elsewhere) {
      std::thread([moved = std::move(*held)] {}).join();
      held.reset();
    } else {
      held.reset();
    }
    waiter.join();
    CHECK(has_lease.load());
    CHECK(pool.leases_live() == 0);
    CHECK(pool.streams_created() == 1);
  }
}

TEST_CASE("threads that wait for streams of different priorities each get theirs") {
  Simulation simulation({}, bounded(1, StreamShortage::wait));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> plain = pool.acquire();
  std::optional<StreamLease> urgent = pool.acquire(-1);
  std::thread wants_plain([&] { const StreamLease lease = pool.acquire(); });
  std::thread wants_urgent([&] { const StreamLease lease = pool.acquire(-1); });
  for (int turn = 0; turn < 2000; ++turn) std::this_thread::yield();
  urgent.reset();
  wants_urgent.join();
  plain.reset();
  wants_plain.join();
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("once no thread waits, streams are cached without a lock again") {
  Simulation simulation({}, bounded(2, StreamShortage::wait));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  {
    std::vector<StreamLease> held;
    held.push_back(pool.acquire());
    held.push_back(pool.acquire());
    std::thread waiter([&] { const StreamLease lease = pool.acquire(); });
    for (int turn = 0; turn < 2000; ++turn) std::this_thread::yield();
    held.pop_back();
    waiter.join();
  }
  CUstream_st* const last = pool.acquire().ref().native();
  for (int round = 0; round < 10; ++round) CHECK(pool.acquire().ref().native() == last);
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("with many threads and few streams no stream is shared below the bound or lost") {
  for (const StreamShortage policy : {StreamShortage::wait, StreamShortage::fail}) {
    CAPTURE(int(policy));
    constexpr std::size_t kStreams = 3;
    Simulation simulation({}, bounded(kStreams, policy));
    StreamPool& pool = simulation.runtime->streams(kDevice);
    std::atomic<int> shared = 0;
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 300; ++round) {
          try {
            StreamLease lease = pool.acquire(thread % 2 == 0 ? 0 : -1);
            if (pool.leases_live() > 2 * kStreams) ++shared;
            if (round % 7 == 0) std::this_thread::yield();
            if (round % 5 == 0) pool.give_back(lease.release());
          } catch (const Exhausted&) {
            ++refused;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(shared == 0);
    if (policy == StreamShortage::wait) CHECK(refused == 0);
    CHECK(pool.leases_live() == 0);
    CHECK(pool.streams_created() <= 2 * kStreams);
    std::vector<StreamLease> all;
    for (std::size_t stream = 0; stream < kStreams; ++stream) all.push_back(pool.acquire());
    for (std::size_t stream = 1; stream < kStreams; ++stream)
      CHECK(all[stream].ref() != all[0].ref());
  }
}

TEST_CASE("a stream with two leases is not cached until both are returned") {
  Simulation simulation({}, bounded(1, StreamShortage::share));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> first = pool.acquire();
  std::optional<StreamLease> second = pool.acquire();
  REQUIRE(first->ref() == second->ref());
  std::thread([moved = std::move(*second)] {}).join();
  second.reset();
  CHECK(pool.leases_live() == 1);
  first.reset();
  CHECK(pool.leases_live() == 0);
  const StreamLease again = pool.acquire();
  CHECK(pool.leases_live() == 1);
}

TEST_CASE("a failed stream creation leaves no lease, and waiting threads continue") {
  sim::Config config;
  config.faults = sim::FaultPlan::parse("cuStreamCreateWithPriority@1=out_of_memory");
  Simulation simulation(config, bounded(1, StreamShortage::wait));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  CHECK_THROWS_AS(static_cast<void>(pool.acquire()), DriverError);
  CHECK(pool.leases_live() == 0);
  CHECK(pool.streams_created() == 0);
  const StreamLease lease = pool.acquire();
  CHECK(pool.streams_created() == 1);
}

TEST_CASE("a thread that waits for another thread's failing stream creation tries itself") {
  TappedDevice test;
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::wait});
  Meanwhile other([&] { const StreamLease lease = pool.acquire(); });
  test.tap.before(DriverCall::stream_create_with_priority, [&] { other.start(); });
  test.tap.refuse(DriverCall::stream_create_with_priority, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(static_cast<void>(pool.acquire()), DriverError);
  CHECK_FALSE(other.was_done());
  other.join();
  CHECK(pool.streams_created() == 1);
}

TEST_CASE("a thread that waits for a stream gets a new one if the last one stays with a capture") {
  TappedDevice test(manual_progress());
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::wait});
  const Stream parent = test.stream();
  begin_capture(parent);
  {
    Meanwhile other([&] { const StreamLease lease = pool.acquire(); });
    ForkJoin fork(parent, pool, test.events, 1);
    other.start();
    CHECK_FALSE(other.was_done());
    fork.join();
    other.join();
  }
  CHECK(pool.streams_created() == 2);
  CHECK(pool.leases_live() == 0);
  CHECK(CapturedGraph(parent).nodes() == 0);
}

TEST_CASE("a stream in a capture query does not count towards the bound") {
  TappedDevice test(manual_progress());
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::fail});
  const Stream parent = test.stream();
  begin_capture(parent);
  { ForkJoin fork(parent, pool, test.events, 1); }
  bool is_served = false;
  // The first question is about the stream that the capture has.
  test.meanwhile(DriverCall::stream_is_capturing, [&] {
    const StreamLease lease = pool.acquire();
    is_served = true;
  });
  const StreamLease lease = pool.acquire();
  CHECK(is_served);
  CHECK(pool.streams_created() == 2);
  CHECK(CapturedGraph(parent).nodes() == 0);
}

TEST_CASE("returning a stream that is not on lease is refused") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  const Stream foreign = simulation.runtime->create_stream(kDevice);
  CHECK(contains(message_of<InvalidArgument>([&] { pool.give_back(foreign.ref()); }),
                 "streams of cuda:0"));
  const StreamRef once = pool.acquire().release();
  pool.give_back(once);
  CHECK_THROWS_AS(pool.give_back(once), InvalidArgument);
  CHECK(pool.leases_live() == 0);
  const StreamLease lease = pool.acquire();
  CHECK(lease.ref() == once);
}

TEST_CASE("a thread waits for the only stream while it is being created, and then shares it") {
  TappedDevice test;
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::share});
  Meanwhile other([&] { const StreamLease lease = pool.acquire(); });
  test.tap.before(DriverCall::stream_create_with_priority, [&] { other.start(); });
  const StreamLease lease = pool.acquire();
  CHECK_FALSE(other.was_done());
  other.join();
  CHECK(pool.streams_created() == 1);
}

TEST_CASE("a thread that waits for a stream gets one whose capture has ended meanwhile") {
  TappedDevice test(manual_progress());
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::wait});
  const Stream parent = test.stream();
  begin_capture(parent);
  { ForkJoin first(parent, pool, test.events, 1); }
  { ForkJoin second(parent, pool, test.events, 1); }
  const StreamLease held = pool.acquire();
  REQUIRE(pool.streams_created() == 3);
  CHECK(CapturedGraph(parent).nodes() == 0);
  Meanwhile other([&] { const StreamLease lease = pool.acquire(); });
  test.tap.before(DriverCall::stream_is_capturing, [&] { other.start(); });
  const StreamLease lease = pool.acquire();
  CHECK_FALSE(other.was_done());
  other.join();
  CHECK(pool.streams_created() == 3);
}

TEST_CASE("a stream whose capture query fails is not leased") {
  TappedDevice test(manual_progress());
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::fail});
  const Stream parent = test.stream();
  begin_capture(parent);
  { ForkJoin fork(parent, pool, test.events, 1); }
  test.tap.refuse(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  const StreamLease lease = pool.acquire();
  CHECK(pool.streams_created() == 2);
  CHECK_FALSE(lease->is_capturing());
  CHECK(CapturedGraph(parent).nodes() == 0);
}

TEST_CASE("a side stream of a capture stays with its other lease") {
  TappedDevice test(manual_progress());
  StreamPool pool(test.context, {.streams_max = 1, .on_shortage = StreamShortage::share});
  const Stream parent = test.stream();
  const StreamLease held = pool.acquire();
  begin_capture(parent);
  { ForkJoin fork(parent, pool, test.events, 1); }
  CHECK(pool.leases_live() == 1);
  const StreamLease shared = pool.acquire();
  CHECK(shared.ref() == held.ref());
  CHECK(pool.streams_created() == 1);
  CHECK(CapturedGraph(parent).nodes() == 0);
}

}  // namespace stream_shortage_test
