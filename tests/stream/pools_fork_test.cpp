// SPDX-License-Identifier: Apache-2.0
// A process is forked while another thread is busy with the pools. The child must not wait for locks
// that nobody will open, nor call the driver.
#include <atomic>
#include <optional>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

using namespace berth;
using namespace berth::test;

namespace {

constexpr unsigned kHangSeconds = 60;
const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("in a forked child acquiring fails at once, and giving back does nothing") {
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
  for (int round = 0; round < 20; ++round) {
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);  // ends a child that waits
      bool refused = is_refused_after_fork([&] { (void)events.acquire(); });
      refused &= is_refused_after_fork([&] { (void)streams.acquire(); });
      event.reset();
      stream.reset();
      events.give_back(released);
      _exit(refused ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
  events.give_back(released);
  stop = true;
  busy.join();
}
