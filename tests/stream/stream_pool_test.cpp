// SPDX-License-Identifier: Apache-2.0
#include "berth/stream_pool.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace stream_pool_test {

using namespace berth;
using namespace berth::test;

namespace {

RuntimeOptions streams_max(std::size_t streams) {
  RuntimeOptions options;
  options.stream_pool.streams_max = streams;
  return options;
}

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("live leases share no stream until streams_max streams are on lease") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::vector<StreamLease> leases;
  std::set<CUstream_st*> natives;
  for (std::size_t lease = 0; lease < 128; ++lease) {
    leases.push_back(pool.acquire());
    natives.insert(leases.back().ref().native());
  }
  CHECK(natives.size() == 128);
  CHECK_FALSE(natives.contains(nullptr));
  CHECK(pool.streams_created() == 128);
  CHECK(pool.leases_live() == 128);

  leases.push_back(pool.acquire());
  CHECK(natives.contains(leases.back().ref().native()));
  CHECK(pool.streams_created() == 128);
  CHECK(pool.leases_live() == 129);
}

TEST_CASE("beyond streams_max the stream with the fewest leases is shared") {
  Simulation simulation({}, streams_max(3));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::vector<StreamLease> leases;
  for (int lease = 0; lease < 3; ++lease) leases.push_back(pool.acquire());
  for (int round = 0; round < 3; ++round) {
    std::set<CUstream_st*> natives;
    for (int lease = 0; lease < 3; ++lease) {
      leases.push_back(pool.acquire());
      natives.insert(leases.back().ref().native());
    }
    CHECK(natives.size() == 3);
  }
  CHECK(pool.streams_created() == 3);
  CHECK(pool.leases_live() == 12);

  // Of four leases each, take three of one stream's away: the next three all go there.
  CUstream_st* const lonely = leases[1].ref().native();
  for (std::size_t lease = leases.size(); lease-- > 2;) {
    if (leases[lease].ref().native() == lonely)
      leases.erase(leases.begin() + std::ptrdiff_t(lease));
  }
  CHECK(pool.leases_live() == 9);
  for (int lease = 0; lease < 3; ++lease) {
    leases.push_back(pool.acquire());
    CHECK(leases.back().ref().native() == lonely);
  }
}

TEST_CASE("a stream shared by two leases is free when both are returned") {
  Simulation simulation({}, streams_max(2));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> first = pool.acquire();
  const StreamLease second = pool.acquire();
  std::optional<StreamLease> third = pool.acquire();
  // Whichever stream the third shares, giving the third back leaves one lease on each.
  third.reset();
  const StreamLease fourth = pool.acquire();
  const StreamLease fifth = pool.acquire();
  CHECK(fourth.ref() != fifth.ref());
  first.reset();
  CHECK(pool.leases_live() == 3);
}

TEST_CASE("the pool prefers the stream that was returned last") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> a = pool.acquire();
  std::optional<StreamLease> b = pool.acquire();
  std::optional<StreamLease> c = pool.acquire();
  CUstream_st* const first_back = b->ref().native();
  CUstream_st* const last_back = a->ref().native();
  b.reset();
  a.reset();
  const StreamLease next = pool.acquire();
  const StreamLease after = pool.acquire();
  CHECK(next.ref().native() == last_back);
  CHECK(after.ref().native() == first_back);
  CHECK(pool.streams_created() == 3);
}

TEST_CASE("acquiring makes a driver call only to create a stream, and returning makes none") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  { const StreamLease warm = pool.acquire(); }
  const std::uint64_t before = driver_calls(*simulation.runtime);
  for (int round = 0; round < 100; ++round) const StreamLease lease = pool.acquire();
  CHECK(driver_calls(*simulation.runtime) == before);
  CHECK(driver_calls(*simulation.runtime, "cuStreamCreateWithPriority") == 1);
  CHECK(pool.streams_created() == 1);
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("streams of different priorities are pooled apart, each with its own bound") {
  Simulation simulation({}, streams_max(2));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::set<CUstream_st*> natives;
  std::vector<StreamLease> leases;
  for (const int priority : {0, 0, -1, -1}) {
    leases.push_back(pool.acquire(priority));
    natives.insert(leases.back().ref().native());
  }
  CHECK(natives.size() == 4);
  leases.push_back(pool.acquire(-1));
  CHECK((leases.back().ref() == leases[2].ref() || leases.back().ref() == leases[3].ref()));
  CHECK(pool.streams_created() == 4);
}

TEST_CASE("a thread keeps the streams of each priority apart") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  CUstream_st* const plain = pool.acquire(0).ref().native();
  CUstream_st* const urgent = pool.acquire(-1).ref().native();
  CHECK(urgent != plain);
  for (int round = 0; round < 3; ++round) {
    CHECK(pool.acquire(0).ref().native() == plain);
    CHECK(pool.acquire(-1).ref().native() == urgent);
  }
}

TEST_CASE("all priorities below the device's range are the lowest one") {
  Simulation simulation({}, streams_max(1));
  StreamPool& pool = simulation.runtime->streams(kDevice);
  const StreamLease low = pool.acquire(-1000);
  const StreamLease lower = pool.acquire(-2147483647 - 1);
  CHECK(low.ref() == lower.ref());
}

TEST_CASE("a priority below the device's range reuses the thread's cached stream of the lowest") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  CUstream_st* const native = pool.acquire(-1000).ref().native();
  for (int round = 0; round < 10; ++round) CHECK(pool.acquire(-1000).ref().native() == native);
  CHECK(pool.streams_created() == 1);
}

TEST_CASE("a priority above 0 is refused, and the pool stays usable") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  CHECK(contains(message_of<InvalidArgument>([&] { return pool.acquire(1); }), "1"));
  CHECK(pool.leases_live() == 0);
  const StreamLease lease = pool.acquire();
  CHECK(pool.leases_live() == 1);
}

TEST_CASE("a moved-from lease is empty, and an assigned lease returns its previous item") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  StreamLease first = pool.acquire();
  CUstream_st* const native = first.ref().native();
  StreamLease second = std::move(first);
  CHECK(pool.leases_live() == 1);
  CHECK(second.ref().native() == native);
  first = pool.acquire();
  CHECK(pool.leases_live() == 2);
  second = std::move(first);
  CHECK(pool.leases_live() == 1);
  const StreamLease reused = pool.acquire();
  CHECK(reused.ref().native() == native);
}

TEST_CASE("a lease can be returned on another thread") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  StreamLease lease = pool.acquire();
  CUstream_st* const native = lease.ref().native();
  std::thread([moved = std::move(lease)] {}).join();
  CHECK(pool.leases_live() == 0);
  CHECK(pool.acquire().ref().native() == native);
}

TEST_CASE("leases of many threads at once never share a stream below the bound") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::mutex mutex;
  std::set<CUstream_st*> in_use;
  std::atomic<int> shared{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const StreamLease lease = pool.acquire(round % 3 == 0 ? -1 : 0);
        {
          const std::lock_guard lock(mutex);
          if (!in_use.insert(lease.ref().native()).second) ++shared;
        }
        std::this_thread::yield();
        const std::lock_guard lock(mutex);
        in_use.erase(lease.ref().native());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared == 0);
  CHECK(pool.leases_live() == 0);
  CHECK(pool.streams_created() <= 8);
}

TEST_CASE("a pooled stream does not wait for the legacy default stream") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  WorkLog& log = simulation.log;
  const StreamLease lease = runtime.streams(kDevice).acquire();

  log.submit(runtime.default_stream(kDevice), "default");
  log.submit(lease, "pooled");
  lease->sync();
  CHECK(log.done() == std::vector<std::string>{"pooled"});
}

TEST_CASE("a stream returned with work pending keeps its order for the next lease") {
  Simulation simulation(manual_progress());
  StreamPool& pool = simulation.runtime->streams(kDevice);
  WorkLog& log = simulation.log;
  CUstream_st* native = nullptr;
  {
    const StreamLease lease = pool.acquire();
    native = lease.ref().native();
    log.submit(lease, "earlier lease");
  }
  const StreamLease lease = pool.acquire();
  REQUIRE(lease.ref().native() == native);
  log.submit(lease, "later lease");
  lease->sync();
  CHECK(log.done() == std::vector<std::string>{"earlier lease", "later lease"});
}

TEST_CASE("a streams_max of 0 is refused") {
  const sim::Simulator simulator{sim::Config{}};
  RuntimeOptions options = streams_max(0);
  options.driver = "sim";
  const std::string message = message_of<InvalidArgument>([&] {
    Runtime runtime(options);
    return &runtime.streams(kDevice);
  });
  CHECK(contains(message, "streams_max"));
}

TEST_CASE(
    "a lease whose stream was returned before stops the process, and the program learns why") {
  Simulation simulation;
  StreamPool& pool = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> lease = pool.acquire();
  pool.give_back(lease->ref());
  CHECK(contains(last_words([&] { lease.reset(); }).value_or("it continues"),
                 "a StreamLease ends whose stream StreamPool::give_back() has returned before"));
  static_cast<void>(lease->release());
}

}  // namespace stream_pool_test
