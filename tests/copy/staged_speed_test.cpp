// SPDX-License-Identifier: Apache-2.0
// How near staged copies come to what link and memory allow. In virtual time, which is exact: the link
// is that of the simulated device, and each thread copies at the rate of the cost model.
#include <algorithm>
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/staged_fixture.hpp"
#include "copy/virtual_crew.hpp"
#include "sim/work/cost_model.hpp"

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 4_MiB;
constexpr std::size_t kSlots = 16;

sim::Config timed() {
  sim::Config config;
  config.memory = {4_GiB};
  config.progress = sim::Progress::timed;
  config.checks = false;
  config.poison = false;
  return config;
}

double bytes_per_ns(std::uint64_t (*ns_of)(std::size_t)) {
  return static_cast<double>(1_GiB) / static_cast<double>(ns_of(1_GiB));
}
double thread_rate() {
  return bytes_per_ns([](std::size_t bytes) { return sim::host_copy_ns(bytes); });
}
double link_rate(StagedRoute::Direction direction) {
  return direction == StagedRoute::Direction::to_device
             ? bytes_per_ns(
                   [](std::size_t b) { return sim::transfer_ns(sim::Engine::host_to_device, b); })
             : bytes_per_ns(
                   [](std::size_t b) { return sim::transfer_ns(sim::Engine::device_to_host, b); });
}

struct TimedStaged : StagedTest {
  explicit TimedStaged(std::size_t threads)
      : StagedTest(timed(), kSlot, kSlots), crew(simulator, work, threads, thread_rate()) {}

  /// Bytes per nanosecond.
  double run(Direction direction, std::size_t bytes, StreamRef stream) {
    const std::unique_ptr<std::byte[]> host(new std::byte[bytes]());
    std::byte* const device = allocate(bytes);
    const std::uint64_t before = simulator.now_ns();
    const auto copy =
        start({.direction = direction,
               .host = std::make_unique<LinearHost>(host.get()),
               .device = std::make_unique<ObservedDevice>(device, [this] { crew.catch_up(); }),
               .bytes = bytes},
              stream);
    const std::uint64_t end = crew.run();
    CHECK(copy->failure() == nullptr);
    return static_cast<double>(bytes) / static_cast<double>(end - before);
  }

  VirtualCrew crew;
};

}  // namespace

TEST_CASE("a staged copy of 1 GiB comes within 5 % of what link and threads allow") {
  for (const auto direction : {StagedTest::Direction::to_device, StagedTest::Direction::to_host}) {
    for (const std::size_t threads : {1, 2, 4, 6}) {
      CAPTURE(int(direction));
      CAPTURE(threads);
      TimedStaged test(threads);
      const Stream stream = test.stream();
      test.run(direction, 64_MiB, stream);  // the staging memory is pinned now
      const double allowed =
          std::min(link_rate(direction), static_cast<double>(threads) * thread_rate());
      const double reached = test.run(direction, 1_GiB, stream);
      MESSAGE(threads, " threads: ", reached, " GB/s of ", allowed);
      CHECK(reached >= 0.95 * allowed);
    }
  }
}
