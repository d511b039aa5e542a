// SPDX-License-Identifier: Apache-2.0
#include "berth/event_pool.hpp"

#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/stream_pool.hpp"

#include "base/per_thread.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace event_pool_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("live leases never share an event, however many there are") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  std::vector<EventLease> leases;
  std::set<CUevent_st*> natives;
  for (int lease = 0; lease < 300; ++lease) {
    leases.push_back(pool.acquire({.timing = lease % 2 == 0}));
    natives.insert(leases.back().ref().native());
  }
  CHECK(natives.size() == 300);
  CHECK(pool.leases_live() == 300);
  CHECK(pool.events_created() >= 300);
}

TEST_CASE("acquiring makes no driver call unless every pooled event is out, giving back none") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  {
    const EventLease a = pool.acquire();
    const EventLease b = pool.acquire();
  }
  const std::uint64_t before = driver_calls(*simulation.runtime);
  const std::size_t created = pool.events_created();
  for (int round = 0; round < 100; ++round) {
    const EventLease a = pool.acquire();
    const EventLease b = pool.acquire();
    CHECK(a.ref() != b.ref());
  }
  CHECK(driver_calls(*simulation.runtime) == before);
  CHECK(pool.events_created() == created);
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("timing and non-timing events are pooled apart") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  EventPool& pool = runtime.events(kDevice);
  const Stream stream = runtime.create_stream(kDevice);
  { const EventLease untimed = pool.acquire(); }
  const EventLease start = pool.acquire({.timing = true});
  const EventLease end = pool.acquire({.timing = true});
  start->record(stream);
  end->record(stream);
  end->sync();
  CHECK(elapsed_ms(start, end) >= 0.0F);

  std::set<CUevent_st*> timed = {start.ref().native(), end.ref().native()};
  for (int round = 0; round < 5; ++round) {
    const EventLease untimed = pool.acquire({.timing = false});
    CHECK_FALSE(timed.contains(untimed.ref().native()));
    untimed->record(stream);
    untimed->sync();
    CHECK(contains(message_of<InvalidArgument>([&] { return elapsed_ms(start, untimed); }),
                   "made without EventOptions::timing"));
  }
}

TEST_CASE("a moved-from lease is empty, and an assigned lease returns its previous item") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  EventLease first = pool.acquire();
  EventLease second = std::move(first);
  CHECK(pool.leases_live() == 1);
  first = pool.acquire();
  CHECK(first.ref() != second.ref());
  second = std::move(first);
  CHECK(pool.leases_live() == 1);
}

TEST_CASE("a leased event can be recorded and waited for regardless of its previous record") {
  Simulation simulation(manual_progress());
  Runtime& runtime = *simulation.runtime;
  EventPool& pool = runtime.events(kDevice);
  const Stream stream = runtime.create_stream(kDevice);
  WorkLog& log = simulation.log;
  log.submit(stream, "old");
  CUevent_st* native = nullptr;
  {
    const EventLease lease = pool.acquire();
    native = lease.ref().native();
    lease->record(stream);
  }
  const EventLease lease = pool.acquire();
  log.submit(stream, "new");
  lease->record(stream);
  CHECK_FALSE(lease->is_done());
  lease->sync();
  CHECK(log.done() == std::vector<std::string>{"old", "new"});
  CHECK(native != nullptr);
}

TEST_CASE("leases are acquired and returned on any thread") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool] {
      for (int round = 0; round < 200; ++round) {
        EventLease mine = pool.acquire({.timing = round % 4 == 0});
        std::vector<EventLease> more;
        more.push_back(pool.acquire());
        more.push_back(std::move(mine));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.leases_live() == 0);
  EventLease lease = pool.acquire();
  std::thread([moved = std::move(lease)] {}).join();
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("at most events_max events exist, including those that other threads keep") {
  Simulation simulation;
  DeviceContext& context = simulation.runtime->devices().context(kDevice);
  EventPool pool(context, {.events_max = 40});
  std::atomic<int> step = 0;
  std::thread keeper([&] {
    {
      std::vector<EventLease> kept;
      for (int lease = 0; lease < 20; ++lease) kept.push_back(pool.acquire());
    }
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  std::vector<EventLease> leases;
  for (int lease = 0; lease < 40; ++lease) leases.push_back(pool.acquire());
  CHECK(pool.events_created() == 40);
  CHECK(pool.leases_live() == 40);
  const std::string message = message_of<Exhausted>([&] { return pool.acquire(); });
  CHECK(contains(message, "events of cuda:0: all 40 are on lease"));
  CHECK(contains(message, "EventPoolOptions::events_max"));
  step = 2;
  keeper.join();
  CUevent_st* const back = leases.back().ref().native();
  leases.pop_back();
  CHECK(pool.acquire().ref().native() == back);
  CHECK(pool.events_created() == 40);
}

TEST_CASE("events acquired on one thread and returned on another are reused") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  constexpr std::size_t kAtOnce = 100;
  for (int round = 0; round < 50; ++round) {
    std::vector<EventLease> leases;
    for (std::size_t lease = 0; lease < kAtOnce; ++lease) leases.push_back(pool.acquire());
    std::thread([moved = std::move(leases)] {}).join();
    CHECK(pool.leases_live() == 0);
  }
  CHECK(pool.events_created() == kAtOnce);
}

TEST_CASE("a thread's first event given back does not wait for another thread that is ending") {
  // As an allocator does under its own lock, which the ending thread waits for.
  struct Part {
    BiasedLock& lock() { return biased; }
    BiasedLock biased;
  };
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  EventLease lease = pool.acquire();
  std::atomic<bool> is_ending = false;
  std::atomic<bool> is_back = false;
  Mutex mutex;
  PerThread<Part> parts(mutex, [&](Part&) {
    is_ending = true;
    while (!is_back) std::this_thread::yield();
  });
  REQUIRE(BiasedLock::is_available());
  std::thread ending([&] { parts.local_or_new(); });
  while (!is_ending) std::this_thread::yield();
  std::thread([&, given_back = std::move(lease)]() mutable {
    { const EventLease here = std::move(given_back); }
    is_back = true;
  }).join();
  ending.join();
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("two threads that exchange events need few more events than are in transit") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  constexpr int kRounds = 400;
  constexpr std::size_t kBatch = 64;
  std::vector<EventLease> on_the_way;
  std::atomic<int> filled = 0;
  std::thread taker([&] {
    for (int round = 0; round < kRounds; ++round) {
      while (filled != 2 * round + 1) std::this_thread::yield();
      on_the_way.clear();
      filled = 2 * round + 2;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    while (filled != 2 * round) std::this_thread::yield();
    for (std::size_t lease = 0; lease < kBatch; ++lease) on_the_way.push_back(pool.acquire());
    filled = 2 * round + 1;
  }
  taker.join();
  CHECK(pool.leases_live() == 0);
  CHECK(pool.events_created() <= 3 * kBatch);
}

TEST_CASE("a failed event creation leaves no lease") {
  sim::Config config;
  config.faults = sim::FaultPlan::parse("cuEventCreate@1=out_of_memory");
  Simulation simulation(config);
  EventPool pool(simulation.runtime->devices().context(kDevice), {.events_max = 1});
  CHECK_THROWS_AS(static_cast<void>(pool.acquire()), DriverError);
  CHECK(pool.leases_live() == 0);
  const EventLease lease = pool.acquire();
  CHECK(pool.events_created() == 1);
}

TEST_CASE("at the bound, an idle event of the other kind is replaced") {
  Simulation simulation;
  EventPool pool(simulation.runtime->devices().context(kDevice), {.events_max = 2});
  {
    const EventLease first = pool.acquire({.timing = true});
    const EventLease second = pool.acquire({.timing = true});
  }
  const EventLease first = pool.acquire({.timing = false});
  EventLease second = pool.acquire({.timing = false});
  CHECK(pool.events_created() == 2);
  CHECK_THROWS_AS(static_cast<void>(pool.acquire({.timing = true})), Exhausted);
  second = EventLease();
  CHECK_NOTHROW(static_cast<void>(pool.acquire({.timing = true})));
}

TEST_CASE("an event that is being created counts for the bound") {
  TappedDevice test;
  EventPool pool(test.context, {.events_max = 1});
  bool is_refused = false;
  test.meanwhile(DriverCall::event_create, [&] {
    try {
      static_cast<void>(pool.acquire());
    } catch (const Exhausted&) {
      is_refused = true;
    }
  });
  const EventLease lease = pool.acquire();
  CHECK(is_refused);
  CHECK(pool.events_created() == 1);
}

TEST_CASE("a pooled event belongs to its pool, on lease or not") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  for (const bool on_lease : {true, false}) {
    EventLease lease = pool.acquire();
    const EventRef event = lease;
    if (!on_lease) pool.give_back(lease.release());
    CHECK(contains(message_of<InvalidArgument>([&] { return Event::adopt(event); }),
                   "belongs to the pool of cuda:0"));
  }
  const EventLease again = pool.acquire();
  CHECK(again->is_done());
}

TEST_CASE("handles of a destroyed pool belong to no pool") {
  TappedDevice test;
  const StreamRef stream = [&] {
    StreamPool pool(test.context, {});
    const StreamLease lease = pool.acquire();
    CHECK(test.context.pooled_streams().contains(lease->native()));
    return lease.ref();
  }();
  CHECK_FALSE(test.context.pooled_streams().contains(stream.native()));
  const EventRef event = [&] {
    EventPool pool(test.context, {});
    const EventLease lease = pool.acquire();
    CHECK(test.context.pooled_events().contains(lease->native()));
    return lease.ref();
  }();
  CHECK_FALSE(test.context.pooled_events().contains(event.native()));
}

TEST_CASE("returning an event that is not on lease is refused") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  const Event foreign(simulation.runtime->devices().context(kDevice), {});
  CHECK(contains(message_of<InvalidArgument>([&] { pool.give_back(foreign.ref()); }),
                 "events of cuda:0"));
  const EventRef once = pool.acquire().release();
  pool.give_back(once);
  CHECK_THROWS_AS(pool.give_back(once), InvalidArgument);
  CHECK(pool.leases_live() == 0);
}

TEST_CASE("a lease whose event was returned before stops the process, and the program learns why") {
  Simulation simulation;
  EventPool& pool = simulation.runtime->events(kDevice);
  std::optional<EventLease> lease = pool.acquire();
  pool.give_back(lease->ref());
  CHECK(contains(last_words([&] { lease.reset(); }).value_or("it continues"),
                 "an EventLease ends whose event EventPool::give_back() has returned before"));
  static_cast<void>(lease->release());
}

TEST_CASE("an events_max of 0 is refused") {
  Simulation simulation;
  DeviceContext& context = simulation.runtime->devices().context(kDevice);
  CHECK(contains(message_of<InvalidArgument>([&] { EventPool pool(context, {.events_max = 0}); }),
                 "events_max"));
}

TEST_CASE("events of a pool belong to its device") {
  sim::Config config;
  config.devices = 2;
  Simulation simulation(config);
  Runtime& runtime = *simulation.runtime;
  const EventLease event = runtime.events(Device::cuda(1)).acquire();
  CHECK(event->device() == Device::cuda(1));
  message_of<InvalidArgument>([&] { event->record(runtime.default_stream(Device::cuda(0))); });
  event->record(runtime.default_stream(Device::cuda(1)));
}

TEST_CASE("an event cached by another thread is taken while the last one is being created") {
  TappedDevice test;
  EventPool pool(test.context, {.events_max = 2});
  SecondThread keeper;
  keeper.run([&] { const EventLease kept = pool.acquire(); });
  bool is_served = false;
  test.tap.before(DriverCall::event_create, [&] {
    std::thread([&] {
      try {
        const EventLease lease = pool.acquire();
        is_served = true;
      } catch (const Exhausted&) {
        return;
      }
    }).join();
  });
  const EventLease lease = pool.acquire();
  CHECK(is_served);
  CHECK(pool.events_created() == 2);
}

}  // namespace event_pool_test
