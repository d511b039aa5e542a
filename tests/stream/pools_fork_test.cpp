// SPDX-License-Identifier: Apache-2.0
// A process is forked while another thread uses the pools. The child must not wait for locks that
// are never released, nor call the driver.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/thinned.hpp"

namespace pools_fork_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("in a forked child acquiring fails at once, and returning does nothing") {
  Simulation simulation;
  EventPool& events = simulation.runtime->events(kDevice);
  StreamPool& streams = simulation.runtime->streams(kDevice);
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      std::optional<EventLease> leases[40];
      for (auto& lease : leases) lease = events.acquire();
      const StreamLease stream = streams.acquire();
    }
  });
  std::optional<EventLease> event = events.acquire();
  std::optional<StreamLease> stream = streams.acquire();
  const EventRef released = events.acquire().release();
  const std::size_t rounds = Thinned(5).part_of(20);
  for (std::size_t round = 0; round < rounds; ++round) {
    CHECK(exit_code_without_waiting([&] {
            bool refused = is_refused_after_fork([&] { (void)events.acquire(); });
            refused &= is_refused_after_fork([&] { (void)streams.acquire(); });
            refused &= is_refused_after_fork([&] { (void)events.events_created(); });
            refused &= is_refused_after_fork([&] { (void)events.leases_live(); });
            refused &= is_refused_after_fork([&] { (void)streams.streams_created(); });
            refused &= is_refused_after_fork([&] { (void)streams.leases_live(); });
            event.reset();
            stream.reset();
            events.give_back(released);
            return refused;
          }) == 0);
  }
  events.give_back(released);
  stop = true;
  busy.join();
}

TEST_CASE("destroying a Runtime in a forked child does not wait for threads of the parent") {
  RuntimeOptions options;
  options.stream_pool = {.streams_max = 1, .on_shortage = StreamShortage::wait};
  Simulation simulation({}, options);
  StreamPool& streams = simulation.runtime->streams(kDevice);
  std::optional<StreamLease> held = streams.acquire();
  std::thread waiting([&] { const StreamLease next = streams.acquire(); });
  for (int round = 0; round < 10; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // in one of them it waits by now
    CHECK(exit_code_without_waiting([&] {
            simulation.runtime.reset();
            return true;
          }) == 0);
  }
  held.reset();
  waiting.join();
}

}  // namespace pools_fork_test
