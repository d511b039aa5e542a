// SPDX-License-Identifier: Apache-2.0
// A process that has used the registry is forked. The child must neither wait for a driver that
// does not work there nor release objects of the parent.
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_pick.hpp"
#include "berth/runtime.hpp"

#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"
#include "support/thinned.hpp"

namespace fork_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("in a forked child known facts are readable, and driver calls are refused") {
  Simulation simulation(sim::Config::parse("devices=2"));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(1));
  std::atomic<bool> stop = false;
  std::thread busy([&] {  // most of the time inside of the driver
    while (!stop) static_cast<void>(registry.memory_info(Device::cuda(0)));
  });
  for (int round = 0; round < 10; ++round) {
    CHECK(exit_code_without_waiting([&] {
            bool right = registry.count() == 2 && registry.physical_devices().size() == 2;
            right &= registry.resolve(Device::cuda(1)) == Device::cuda(1);
            right &= registry.explain().size() == 2 && registry.visibility_problem().empty();
            right &= registry.memory_info(Device::cpu()).bytes_total > 0;
            right &= is_refused_after_fork([&] { static_cast<void>(registry.current()); });
            right &=
                is_refused_after_fork([&] { static_cast<void>(registry.resolve(Device::cuda())); });
            right &= is_refused_after_fork([&] { registry.set_current(Device::cuda(0)); });
            right &= is_refused_after_fork([&] { registry.set_current(Device::cuda(1)); });
            right &= is_refused_after_fork(
                [&] { static_cast<void>(registry.memory_info(Device::cuda(0))); });
            right &= is_refused_after_fork(
                [&] { static_cast<void>(registry.memory_use(Device::cuda(0))); });
            right &= is_refused_after_fork(
                [&] { static_cast<void>(registry.utilization_percent(Device::cuda(0))); });
            right &=
                is_refused_after_fork([&] { static_cast<void>(registry.facts(Device::cuda(0))); });
            right &= is_refused_after_fork(
                [&] { static_cast<void>(pick_device(registry, DevicePreference::least_used)); });
            right &=
                is_refused_after_fork([&] { const DeviceGuard guard(registry, Device::cuda(0)); });
            right &= is_refused_after_fork(
                [&] { static_cast<void>(simulation.runtime->create_stream(Device::cuda(0))); });
            return right;
          }) == 0);
  }
  stop = true;
  busy.join();
  CHECK(registry.current() == Device::cuda(1));
}

TEST_CASE("a fork while another thread is in the middle of a first use leaves no child waiting") {
  sim::Config config;
  config.devices = 2;
  TappedDevice test(config);
  DeviceContext& context = test.registry.context(Device::cuda(0));
  DeviceContext& peer = test.registry.context(Device::cuda(1));
  /// What the other thread does, within which call it is, and what the child is refused.
  struct Case {
    DriverCall within;
    std::function<void()> use;
  };
  const Case cases[] = {
      {DriverCall::primary_ctx_retain, [&] { static_cast<void>(context.primary()); }},
      {DriverCall::primary_ctx_retain, [&] { static_cast<void>(peer.primary()); }},
      {DriverCall::ctx_enable_peer_access,
       [&] {
         const ContextScope scope(context);
         peer.peer_access().enable(context);
       }},
  };
  for (const Case& each : cases) {
    std::atomic<bool> is_inside = false;
    std::atomic<bool> may_end = false;
    test.tap.before(each.within, [&] {
      is_inside = true;
      while (!may_end) std::this_thread::yield();
    });
    std::thread user([&] { each.use(); });
    while (!is_inside) std::this_thread::yield();
    CHECK(exit_code_without_waiting([&] { return is_refused_after_fork(each.use); }) == 0);
    may_end = true;
    user.join();
  }
}

TEST_CASE("the end of a Runtime in a forked child calls no driver, and reports nothing") {
  Simulation simulation(sim::Config::parse("devices=2"));
  simulation.runtime->devices().set_current(Device::cuda(1));
  std::optional<Stream> stream = simulation.runtime->create_stream(Device::cuda(0));
  CHECK(exit_code_without_waiting([&] {
          const std::uint64_t calls = simulation.simulator.calls("cuDevicePrimaryCtxRelease") +
                                      simulation.simulator.calls("cuStreamDestroy");
          stream.reset();
          simulation.runtime.reset();
          return simulation.simulator.calls("cuDevicePrimaryCtxRelease") +
                         simulation.simulator.calls("cuStreamDestroy") ==
                     calls &&
                 simulation.simulator.live().contexts == 2 && simulation.reports.all().empty();
        }) == 0);
  CHECK(simulation.simulator.live().contexts == 2);
  stream.reset();
}

TEST_CASE("a Runtime in a forked child does not wait, and reports why it has no device") {
  Simulation simulation(sim::Config::parse("devices=2"));
  Runtime& runtime = *simulation.runtime;
  std::atomic<bool> stop = false;
  std::thread queries([&] {
    while (!stop) static_cast<void>(runtime.devices().memory_info(Device::cuda(0)));
  });
  std::thread copies([&] {  // looks pinned memory up, in the list of all Runtimes
    const Allocation pinned = runtime.pinned_memory().allocate(1 << 20);
    const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
    while (!stop) {
      const Allocation memory = runtime.memory(Device::cuda(0)).allocate(1 << 20, stream);
      runtime.copier().copy(memory.data(), pinned.data(), 1 << 20, stream);
      std::vector<std::byte> pageable(100);
      runtime.copier().copy(pageable.data(), memory.data(), 100, stream);
    }
  });
  std::thread callbacks([&] {
    const StreamLease stream = runtime.streams(Device::cuda(1)).acquire();
    while (!stop) {
      runtime.completions().when_done(stream, [](std::exception_ptr) {});
      stream->sync();
    }
  });
  std::thread others([&] {
    while (!stop) {
      Runtime other({.driver = "sim"});
      const Allocation pinned = other.pinned_memory().allocate(100);
    }
  });
  const std::size_t rounds = Thinned(5).part_of(50);
  for (std::size_t round = 0; round < rounds; ++round) {
    CHECK(exit_code_without_waiting([&] {
            Runtime own({.driver = "sim"});
            const bool says = contains(own.driver().problem, "was forked from one that had") &&
                              contains(message_of<InvalidArgument>(
                                           [&] { static_cast<void>(own.memory(Device::cuda(0))); }),
                                       "was forked from one that had");
            static_cast<void>(own.pinned_memory());
            const bool works = own.host_memory().allocate(100).data() != nullptr;
            return says && works;
          }) == 0);
    CHECK(exit_code_of([&] {  // the parent's Runtime ends with the process, and may end before
            alarm(kHangSeconds);
            if (round % 2 == 0) simulation.runtime.reset();
            return 4;
          }) == 4);
  }
  stop = true;
  for (std::thread* const each : {&queries, &copies, &callbacks, &others}) each->join();
}

TEST_CASE("a forked child whose parent has no Runtime makes its own") {
  CHECK(exit_code_without_waiting([] {
          Simulation simulation(sim::Config::parse("devices=3"));
          const DeviceRegistry& registry = simulation.runtime->devices();
          registry.set_current(Device::cuda(2));
          return registry.count() == 3 && registry.current() == Device::cuda(2) &&
                 registry.memory_info(Device::cuda(1)).bytes_total > 0;
        }) == 0);
}

}  // namespace fork_test
