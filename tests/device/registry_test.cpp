// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_guard.hpp"
#include "berth/device_registry.hpp"

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace registry_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config devices(int count) {
  sim::Config config;
  config.devices = count;
  return config;
}

/// Four devices that differ in memory, so that a device can be told from its neighbors.
sim::Config four_sizes() {
  sim::Config config = devices(4);
  config.memory = {8_GiB, 16_GiB, 24_GiB, 32_GiB};
  return config;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  REQUIRE(sim::berth_sim_cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  return context;
}

}  // namespace

TEST_CASE("every device of the driver is visible, with the facts the driver and NVML give") {
  Simulation simulation(four_sizes());
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.count() == 4);
  CHECK(registry.is_available());
  CHECK(registry.visibility_problem().empty());
  REQUIRE(registry.physical_devices().size() == 4);

  const std::regex uuid("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
  const std::regex pci("[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\\.[0-7]");
  std::set<std::string> uuids;
  for (int physical = 0; physical < 4; ++physical) {
    CAPTURE(physical);
    const DeviceInfo& info = registry.physical_devices()[std::size_t(physical)];
    CHECK(info.physical == physical);
    CHECK(info.logical == physical);
    CHECK(info.visible());
    CHECK(info.name == "Simulated GPU");
    CHECK(info.memory_bytes == four_sizes().memory_of(physical));
    CHECK(std::regex_match(info.uuid, uuid));
    CHECK(std::regex_match(info.pci_bus_id, pci));
    uuids.insert(info.uuid);
  }
  CHECK(uuids.size() == 4);
  CHECK(std::ranges::is_sorted(registry.physical_devices(), {}, &DeviceInfo::pci_bus_id));
}

TEST_CASE("driver order and PCI order are joined by UUID, never by position") {
  sim::Config config = four_sizes();
  config.order = sim::DeviceOrder::reverse;
  Simulation simulation(config);
  const DeviceRegistry& registry = simulation.runtime->devices();
  REQUIRE(registry.physical_devices().size() == 4);
  for (const DeviceInfo& info : registry.physical_devices()) {
    CAPTURE(info.physical);
    REQUIRE(info.visible());
    CHECK(info.logical == 3 - info.physical);
    CHECK(info.memory_bytes == config.memory_of(info.physical));
    CHECK(registry.memory_info(Device::cuda(*info.logical)).bytes_total == info.memory_bytes);
  }
}

TEST_CASE("CUDA_DEVICE_ORDER=PCI_BUS_ID makes logical order PCI order") {
  const ScopedEnvironment order("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  sim::Config config = four_sizes();
  config.order = sim::DeviceOrder::reverse;
  Simulation simulation(config);
  for (const DeviceInfo& info : simulation.runtime->devices().physical_devices())
    CHECK(info.logical == info.physical);
}

TEST_CASE("resolve fills in the ordinal and refuses a device that is not there") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.resolve(Device::cpu()) == Device::cpu());
  CHECK(registry.resolve(Device::cuda(0)) == Device::cuda(0));
  CHECK(registry.resolve(Device::cuda(1)) == Device::cuda(1));
  CHECK(registry.resolve(Device::cuda()) == Device::cuda(0));
  registry.set_current(Device::cuda(1));
  CHECK(registry.resolve(Device::cuda()) == Device::cuda(1));

  for (const int missing : {2, 127, 128, 255, 256, 257, 2147483647}) {
    CAPTURE(missing);
    const std::string message =
        message_of<InvalidArgument>([&] { return registry.resolve(Device::cuda(missing)); });
    CHECK(contains(message, "cuda:" + std::to_string(missing)));
    CHECK(contains(message, "cuda:1"));
  }
}

TEST_CASE("devices of unmanaged types are refused by name") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  const DeviceType npu = DeviceType::register_name("npu");
  for (const Device device : {Device::of(npu), Device::of(npu, 0), Device::of(npu, 1)}) {
    const auto refused = [&device](auto&& action) {
      const std::string message = message_of<InvalidArgument>(action);
      CHECK(message.starts_with(device.to_string() + ": "));
      CHECK(contains(message, "type npu"));
      CHECK(contains(message, "cuda:0 to cuda:1"));
    };
    refused([&] { return registry.resolve(device); });
    refused([&] { registry.set_current(device); });
    refused([&] { return registry.memory_info(device).bytes_total; });
    refused([&] { const DeviceGuard guard(registry, device); });
    refused([&] { return &simulation.runtime->memory(device); });
    refused([&] { return simulation.runtime->default_stream(device); });
  }
  CHECK(simulation.simulator.live().contexts == 0);
}

TEST_CASE("queries of devices create no context") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.count() == 3);
  CHECK(registry.is_available());
  CHECK(registry.physical_devices().size() == 3);
  CHECK(registry.resolve(Device::cuda(2)) == Device::cuda(2));
  CHECK(registry.resolve(Device::cuda()) == Device::cuda(0));
  CHECK(registry.current() == Device::cuda(0));
  CHECK_THROWS_AS(static_cast<void>(registry.resolve(Device::cuda(9))), InvalidArgument);
  CHECK(simulation.runtime->statistics().devices.size() == 3);
  CHECK(simulation.runtime->default_stream(Device::cuda(1)).device() == Device::cuda(1));
  CHECK(registry.info(Device::cuda(1)).logical == 1);
  CHECK(registry.mig_instances().empty());
  CHECK(registry.explain().size() == 3);
  CHECK(registry.visibility_problem().empty());
  CHECK(simulation.simulator.live().contexts == 0);
  for (const char* call : {"cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuCtxSetCurrent",
                           "cuCtxPushCurrent", "cuMemGetInfo"}) {
    CAPTURE(call);
    CHECK(simulation.simulator.calls(call) == 0);
  }
}

TEST_CASE("the first use of a device retains its context, and no other device's") {
  Simulation simulation(devices(3));
  simulation.runtime->devices().set_current(Device::cuda(1));
  CHECK(simulation.simulator.live().contexts == 1);
  simulation.runtime->devices().set_current(Device::cuda(1));
  CHECK(simulation.simulator.live().contexts == 1);
}

TEST_CASE("a Runtime releases the contexts that it retained") {
  Simulation simulation(devices(2));
  simulation.runtime->devices().set_current(Device::cuda(0));
  simulation.runtime->devices().set_current(Device::cuda(1));
  CHECK(simulation.simulator.live().contexts == 2);
  simulation.runtime.reset();
  CHECK(simulation.simulator.live().contexts == 0);
}

TEST_CASE("set_current changes the device of the calling thread only") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(1));
  CHECK(registry.current() == Device::cuda(1));
  std::thread([&registry] {
    CHECK(registry.current() == Device::cuda(0));
    registry.set_current(Device::cuda(0));
    CHECK(registry.current() == Device::cuda(0));
  }).join();
  CHECK(registry.current() == Device::cuda(1));
}

TEST_CASE("set_current refuses the CPU and a missing device, and leaves the current one") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(1));
  message_of<InvalidArgument>([&] { registry.set_current(Device::cpu()); });
  message_of<InvalidArgument>([&] { registry.set_current(Device::cuda(2)); });
  CHECK(registry.current() == Device::cuda(1));
}

TEST_CASE("many threads that first use a device at once get the same handle and context") {
  Simulation simulation(devices(1));
  const DeviceRegistry& registry = simulation.runtime->devices();
  std::array<DeviceContext*, 4> handles{};
  std::vector<std::thread> threads;
  for (DeviceContext*& handle : handles) {
    threads.emplace_back([&registry, &handle] {
      const DeviceGuard guard(registry, Device::cuda(0));
      handle = &registry.context(Device::cuda(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const DeviceContext* handle : handles) CHECK(handle == &registry.context(Device::cuda(0)));
  CHECK(simulation.simulator.live().contexts == 1);
  CHECK(driver_calls(*simulation.runtime, "cuDevicePrimaryCtxRetain") == 1);
}

TEST_CASE("memory_info reports the device's memory, including that used by others") {
  Simulation simulation(four_sizes());
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(1));
  const MemoryInfo before = registry.memory_info(Device::cuda(2));
  CHECK(before.bytes_total == 24_GiB);
  CHECK(before.bytes_free <= before.bytes_total);
  CHECK(registry.current() == Device::cuda(1));

  CUdeviceptr foreign = 0;
  {
    const DeviceGuard guard(registry, Device::cuda(2));
    REQUIRE(sim::berth_sim_cuMemAlloc(&foreign, 1_GiB) == CUDA_SUCCESS);
  }
  CHECK(registry.memory_info(Device::cuda(2)).bytes_free == before.bytes_free - 1_GiB);
  CHECK(registry.memory_info(Device::cuda(2)).bytes_total == 24_GiB);
  {
    const DeviceGuard guard(registry, Device::cuda(2));
    REQUIRE(sim::berth_sim_cuMemFree(foreign) == CUDA_SUCCESS);
  }
  CHECK(registry.memory_info(Device::cuda(2)).bytes_free == before.bytes_free);
}

TEST_CASE("memory_info works without a current device, for cuda, and for the machine as cpu") {
  Simulation simulation(four_sizes());
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.memory_info(Device::cuda(3)).bytes_total == 32_GiB);
  CHECK(current_context() == nullptr);
  CHECK(registry.memory_info(Device::cuda()).bytes_total == 8_GiB);
  const MemoryInfo machine = registry.memory_info(Device::cpu());
  CHECK(machine.bytes_total > 0);
  CHECK(machine.bytes_free > 0);
  CHECK(machine.bytes_free <= machine.bytes_total);
  message_of<InvalidArgument>([&] { return registry.memory_info(Device::cuda(4)); });
}

TEST_CASE("a machine with 64 devices resolves each of them") {
  Simulation simulation(devices(64));
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(registry.count() == 64);
  for (int ordinal = 0; ordinal < 64; ++ordinal)
    CHECK(registry.resolve(Device::cuda(ordinal)) == Device::cuda(ordinal));
  CHECK_THROWS_AS(static_cast<void>(registry.resolve(Device::cuda(64))), InvalidArgument);
  CHECK(simulation.simulator.live().contexts == 0);
}

}  // namespace registry_test
