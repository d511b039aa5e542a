// SPDX-License-Identifier: Apache-2.0
// Facts of devices and pairs of them, and who holds memory: read once, without a context, and
// unknown if nothing reports it.
#include <optional>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/errors.hpp"
#include "support/nvml_tap.hpp"

namespace facts_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Fixture {
  explicit Fixture(const char* machine = "devices=3,memory=8GiB") : simulator(machine) {}

  std::uint64_t attribute_calls() const { return simulator.calls("cuDeviceGetAttribute"); }

  sim::Simulator simulator;
  DriverTap tap;
  NvmlTap nvml_tap;
  Driver driver{tap.source(), {}};
  Nvml nvml{nvml_tap.source()};
  DeviceRegistry registry{driver, nvml};
};

struct SplitFixture : Fixture {
  SplitFixture() : Fixture("devices=2,memory=8GiB,mig=1:2") {}
};

constexpr nvml::Return kUnknownError = 999;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "facts come from the driver and are read once without a context") {
  CHECK(attribute_calls() == 0);
  const DeviceFacts& facts = registry.facts(Device::cuda(1));
  CHECK(facts.compute_capability_major == 9);
  CHECK(facts.compute_capability_minor == 0);
  CHECK(facts.multiprocessors == 132);
  CHECK(facts.copy_engines == 3);
  CHECK(facts.host_numa_node == 0);
  CHECK(facts.compute_mode == ComputeMode::shared);
  const std::uint64_t calls = attribute_calls();
  CHECK(&registry.facts(Device::cuda(1)) == &facts);
  CHECK(attribute_calls() == calls);
  static_cast<void>(registry.facts(Device::cuda(2)));
  CHECK(attribute_calls() == 2 * calls);
  CHECK(simulator.live().contexts == 0);
  message_of<InvalidArgument>([&] { return registry.facts(Device::cpu()); });
  message_of<InvalidArgument>([&] { return registry.facts(Device::cuda(3)); });
}

TEST_CASE_FIXTURE(Fixture, "threads that query facts at once get the same answer, read once") {
  const std::uint64_t before = attribute_calls();
  static_cast<void>(registry.facts(Device::cuda(0)));
  const std::uint64_t for_one = attribute_calls() - before;
  std::vector<std::thread> threads;
  for (int count = 0; count < 4; ++count) {
    threads.emplace_back([this] {
      static_cast<void>(registry.facts(Device::cuda(1)));
      static_cast<void>(registry.peer(Device::cuda(0), Device::cuda(1)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(attribute_calls() == before + 2 * for_one);
  CHECK(simulator.calls("cuDeviceCanAccessPeer") == 1);
}

TEST_CASE_FIXTURE(Fixture, "a fact that the driver refuses is unknown, for that device only") {
  tap.refuse_all(DriverCall::device_get_attribute, CUDA_ERROR_INVALID_VALUE);
  const DeviceFacts& facts = registry.facts(Device::cuda(0));
  CHECK_FALSE(facts.compute_capability_major.has_value());
  CHECK_FALSE(facts.multiprocessors.has_value());
  CHECK_FALSE(facts.host_numa_node.has_value());
  CHECK_FALSE(facts.compute_mode.has_value());
  tap.allow(DriverCall::device_get_attribute);
  CHECK(registry.facts(Device::cuda(1)).multiprocessors == 132);
}

TEST_CASE_FIXTURE(Fixture, "peer facts are access, atomics, rank and link, read once") {
  const PeerFacts& peer = registry.peer(Device::cuda(0), Device::cuda(2));
  CHECK(peer.access == true);
  CHECK(peer.native_atomics == true);
  CHECK(peer.performance_rank == 0);
  CHECK(peer.link == PeerLink::system);
  CHECK(&registry.peer(Device::cuda(0), Device::cuda(2)) == &peer);
  CHECK(simulator.calls("cuDeviceCanAccessPeer") == 1);
  CHECK(&registry.peer(Device::cuda(2), Device::cuda(0)) != &peer);
  const PeerFacts& self = registry.peer(Device::cuda(1), Device::cuda(1));
  CHECK(self.access == true);
  CHECK(self.link == PeerLink::same_device);
  CHECK(simulator.live().contexts == 0);
  message_of<InvalidArgument>([&] { return registry.peer(Device::cuda(0), Device::cpu()); });
  message_of<InvalidArgument>([&] { return registry.peer(Device::cuda(3), Device::cuda(0)); });
}

TEST_CASE("unconnected devices report no access") {
  Fixture machine("devices=2,peer=off");
  const PeerFacts& peer = machine.registry.peer(Device::cuda(0), Device::cuda(1));
  CHECK(peer.access == false);
  CHECK(peer.native_atomics == false);
}

TEST_CASE_FIXTURE(Fixture, "peer facts that the driver and NVML refuse are unknown") {
  nvml_tap.refuse("nvmlDeviceGetTopologyCommonAncestor", kUnknownError);
  tap.refuse_all(DriverCall::device_get_p2p_attribute, CUDA_ERROR_INVALID_VALUE);
  const PeerFacts& peer = registry.peer(Device::cuda(0), Device::cuda(1));
  CHECK(peer.access == true);
  CHECK_FALSE(peer.native_atomics.has_value());
  CHECK_FALSE(peer.performance_rank.has_value());
  CHECK_FALSE(peer.link.has_value());
}

TEST_CASE_FIXTURE(SplitFixture,
                  "an instance has its own processors and memory, and its device's link") {
  REQUIRE(registry.count() == 3);
  CHECK(registry.facts(Device::cuda(0)).multiprocessors == 132);
  CHECK(registry.facts(Device::cuda(2)).multiprocessors == 60);
  CHECK(registry.peer(Device::cuda(1), Device::cuda(2)).link == PeerLink::same_device);
  CHECK(registry.peer(Device::cuda(0), Device::cuda(2)).link == PeerLink::system);
  CHECK(registry.memory_use(Device::cuda(0)).bytes_total == 8_GiB);
  CHECK(registry.memory_use(Device::cuda(2)).bytes_total == 4_GiB);
}

TEST_CASE_FIXTURE(SplitFixture,
                  "two instances of one device are the same device, whatever NVML says of it") {
  nvml_tap.refuse("nvmlDeviceGetTopologyCommonAncestor", kUnknownError);
  CHECK(registry.peer(Device::cuda(1), Device::cuda(2)).link == PeerLink::same_device);
  CHECK(registry.peer(Device::cuda(2), Device::cuda(1)).link == PeerLink::same_device);
  CHECK_FALSE(registry.peer(Device::cuda(0), Device::cuda(1)).link.has_value());
}

TEST_CASE_FIXTURE(Fixture, "memory use lists processes and their bytes") {
  CHECK(registry.memory_use(Device::cuda(0)).processes.value().empty());
  CHECK(simulator.live().contexts == 0);
  registry.set_current(Device::cuda(0));
  CUdeviceptr memory = 0;
  REQUIRE(sim::berth_sim_cuMemAlloc(&memory, 1_GiB) == CUDA_SUCCESS);
  const DeviceMemoryUse use = registry.memory_use(Device::cuda(0));
  CHECK(use.bytes_total == 8_GiB);
  CHECK(use.bytes_used == 1_GiB);
  REQUIRE(use.processes.has_value());
  REQUIRE(use.processes->size() == 1);
  CHECK(use.processes->front().pid == unsigned(getpid()));
  CHECK(use.processes->front().bytes == 1_GiB);
  CHECK(registry.memory_use(Device::cuda(1)).bytes_used == 0);
  REQUIRE(sim::berth_sim_cuMemFree(memory) == CUDA_SUCCESS);
  message_of<InvalidArgument>([&] { return registry.memory_use(Device::cpu()); });
}

TEST_CASE_FIXTURE(Fixture,
                  "the memory use of a device that is lost is unknown, and known once it is back") {
  for (const char* name : {"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMemoryInfo",
                           "nvmlDeviceGetComputeRunningProcesses_v3"}) {
    CAPTURE(name);
    const std::string refused = name;
    nvml_tap.refuse(refused, nvml::kGpuIsLost);
    const DeviceMemoryUse use = registry.memory_use(Device::cuda(0));
    CHECK(use.bytes_used.has_value() == (refused == "nvmlDeviceGetComputeRunningProcesses_v3"));
    CHECK(use.processes.has_value() == (refused == "nvmlDeviceGetMemoryInfo"));
    nvml_tap.allow_all();
    CHECK(registry.memory_use(Device::cuda(0)).bytes_used == 0);
  }
  nvml_tap.refuse("nvmlDeviceGetGraphicsRunningProcesses_v3", kUnknownError);
  CHECK(registry.memory_use(Device::cuda(0)).processes.has_value());
}

TEST_CASE("without NVML memory use and links are unknown, and the rest is not") {
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  const Driver driver(tap.source(), {});
  const Nvml none(DriverSource{});
  const DeviceRegistry registry(driver, none, "/nonexistent/gpus");
  const DeviceMemoryUse use = registry.memory_use(Device::cuda(0));
  CHECK_FALSE(use.bytes_total.has_value());
  CHECK_FALSE(use.processes.has_value());
  CHECK(registry.peer(Device::cuda(0), Device::cuda(1)).access == true);
  CHECK_FALSE(registry.peer(Device::cuda(0), Device::cuda(1)).link.has_value());
}

TEST_CASE("the toolkit version is that of the headers") {
  CHECK(toolkit_version() == CUDA_VERSION);
}

}  // namespace facts_test
