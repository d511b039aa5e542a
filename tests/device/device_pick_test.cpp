// SPDX-License-Identifier: Apache-2.0
// Which device is picked, on machines whose NVML says what a test wants it to say.
#include "berth/device_pick.hpp"

#include <cuda.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/functions.hpp"
#include "sim/nvml/functions.hpp"
#include "sim/simulator.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/no_launcher.hpp"

namespace device_pick_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";
constexpr std::uint64_t kTotal = 8_GiB;

/// What others do to one device.
struct Load {
  unsigned percent = 0;
  std::uint64_t bytes_used = 0;
  std::vector<nvml::ProcessInfo> processes;
  bool lost = false;
};

/// By UUID, and by ordinal.
std::map<std::string, Load> loads;
std::map<CUdevice, CUcomputemode> compute_modes;

Load load_of(nvml::Device device) {
  char uuid[nvml::kTextBytes] = {};
  REQUIRE(sim::berth_sim_nvmlDeviceGetUUID(device, uuid, sizeof uuid) == nvml::kSuccess);
  return loads[uuid];
}

nvml::Return say_utilization(nvml::Device device, nvml::Utilization* percent) {
  const Load load = load_of(device);
  if (load.lost) return nvml::kGpuIsLost;
  *percent = {load.percent, 0};
  return nvml::kSuccess;
}

nvml::Return say_memory(nvml::Device device, nvml::Memory* memory) {
  const Load load = load_of(device);
  if (load.lost) return nvml::kGpuIsLost;
  *memory = {kTotal, kTotal - load.bytes_used, load.bytes_used};
  return nvml::kSuccess;
}

nvml::Return say_processes(nvml::Device device, unsigned* count, nvml::ProcessInfo* processes) {
  const Load load = load_of(device);
  const unsigned room = *count;
  *count = static_cast<unsigned>(load.processes.size());
  if (*count > room) return nvml::kInsufficientSize;
  for (unsigned index = 0; index < *count; ++index) processes[index] = load.processes[index];
  return nvml::kSuccess;
}

CUresult say_attribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE && compute_modes.contains(device)) {
    *value = compute_modes[device];
    return CUDA_SUCCESS;
  }
  return sim::berth_sim_cuDeviceGetAttribute(value, which, device);
}

void* find(std::string_view symbol) {
  const auto is = [&](const char* name) { return symbol == name; };
  if (is("nvmlDeviceGetUtilizationRates")) return reinterpret_cast<void*>(&say_utilization);
  if (is("nvmlDeviceGetMemoryInfo")) return reinterpret_cast<void*>(&say_memory);
  if (is("nvmlDeviceGetComputeRunningProcesses_v3")) return reinterpret_cast<void*>(&say_processes);
  if (is("cuDeviceGetAttribute")) return reinterpret_cast<void*>(&say_attribute);
  return sim::resolve(std::string(symbol).c_str());
}

DriverSource source() {
  return {.name = "sim",
          .resolve = [](const char* symbol, int) { return find(symbol); },
          .problem = {},
          .library = {}};
}

nvml::ProcessInfo process(unsigned pid, std::uint64_t bytes) {
  return {pid, bytes, nvml::kNoInstance, nvml::kNoInstance};
}

/// Devices on which nobody does anything, until a test says otherwise.
struct Machine {
  explicit Machine(const char* text = "devices=3,memory=8GiB", bool with_nvml = true)
      : simulator(text), nvml(with_nvml ? source() : DriverSource{}) {}
  ~Machine() {
    loads.clear();
    compute_modes.clear();
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Load& load(int ordinal) { return loads[registry.info(Device::cuda(ordinal)).uuid]; }
  Device pick(DevicePreference preference) const {
    const Device picked = pick_device(registry, preference);
    CHECK(simulator.live().contexts == 0);
    return picked;
  }
  Device least_used() const { return pick(DevicePreference::least_used); }
  Device most_free() const { return pick(DevicePreference::most_free_memory); }
  Device by_rank() const { return pick(DevicePreference::local_rank); }

  sim::Simulator simulator;
  Nvml nvml;
  Driver driver{source(), {}};
  DeviceRegistry registry{driver, nvml, "/nonexistent/gpus"};
};

constexpr unsigned kOther = 1;  // no test is process 1

}  // namespace

TEST_CASE_FIXTURE(Machine, "the first of several unused devices is picked") {
  CHECK(least_used() == Device::cuda(0));
  CHECK(most_free() == Device::cuda(0));
}

TEST_CASE_FIXTURE(Machine,
                  "the least used device has a low utilization and little memory used by others") {
  load(0).percent = 60;
  load(1).bytes_used = kTotal / 2;
  load(2).percent = 51;
  CHECK(least_used() == Device::cuda(1));
  load(1).percent = 52;
  CHECK(least_used() == Device::cuda(2));
  load(2).bytes_used = kTotal / 4 * 3;
  CHECK(least_used() == Device::cuda(1));
}

TEST_CASE_FIXTURE(Machine,
                  "equally used devices are ranked by the bytes that other processes hold") {
  load(0).bytes_used = 3_MiB;
  load(1).bytes_used = 2_MiB;
  load(2).bytes_used = 2_MiB;
  CHECK(least_used() == Device::cuda(1));
}

TEST_CASE_FIXTURE(Machine, "memory of this process does not count as use by others") {
  load(0).bytes_used = 6_GiB;
  load(0).processes = {process(unsigned(getpid()), 6_GiB)};
  load(1).bytes_used = 1_GiB;
  load(1).processes = {process(kOther, 1_GiB)};
  load(2).bytes_used = 2_GiB;
  CHECK(least_used() == Device::cuda(0));
  CHECK(most_free() == Device::cuda(1));
}

TEST_CASE_FIXTURE(Machine, "a device that is lost meanwhile is not picked") {
  load(0).lost = true;
  load(1).bytes_used = 1_GiB;
  load(2).bytes_used = 2_GiB;
  CHECK(least_used() == Device::cuda(1));
  CHECK(most_free() == Device::cuda(1));
}

TEST_CASE_FIXTURE(Machine, "a lost device is reported, and not picked, by rank") {
  load(1).lost = true;
  const NoLauncher none;
  const DeviceRegistry later(driver, nvml);
  const ScopedEnvironment launched("LOCAL_RANK", "1");
  const std::string message =
      message_of<NotSupported>([&] { return pick_device(later, DevicePreference::local_rank); });
  CHECK(contains(message, "local rank 1 by LOCAL_RANK: cuda:1 cannot be used"));
  CHECK(contains(message, "lost"));
}

TEST_CASE_FIXTURE(Machine, "a prohibited device is not picked, and a rank for it is refused") {
  compute_modes[0] = CU_COMPUTEMODE_PROHIBITED;
  CHECK(least_used() == Device::cuda(1));
  CHECK(most_free() == Device::cuda(1));
  const NoLauncher none;
  const ScopedEnvironment launched("LOCAL_RANK", "0");
  CHECK(contains(message_of<NotSupported>([&] { return by_rank(); }), "prohibited"));
}

TEST_CASE_FIXTURE(Machine, "an exclusive device is picked while no other process uses it") {
  compute_modes[0] = CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
  CHECK(least_used() == Device::cuda(0));
  load(0).processes = {process(unsigned(getpid()), 0)};
  CHECK(least_used() == Device::cuda(0));
  load(0).processes.push_back(process(kOther, 0));
  CHECK(least_used() == Device::cuda(1));
  // Whose rank it is, it is meant for.
  const NoLauncher none;
  const ScopedEnvironment launched("LOCAL_RANK", "0");
  CHECK(by_rank() == Device::cuda(0));
}

TEST_CASE_FIXTURE(Machine, "if no device can be picked, the error gives the reason for each") {
  load(0).lost = true;
  compute_modes[1] = CU_COMPUTEMODE_PROHIBITED;
  compute_modes[2] = CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
  load(2).processes = {process(kOther, 0)};
  const std::string message = message_of<NotSupported>([&] { return least_used(); });
  CHECK(contains(message, "cuda:0: NVML does not report its memory"));
  CHECK(contains(message, "cuda:1: its compute mode is prohibited"));
  CHECK(contains(message, "cuda:2: its compute mode is exclusive_process, and another process"));
}

TEST_CASE("MIG instances are picked by their memory, and the split device is not picked") {
  Machine machine("devices=2,memory=8GiB,mig=1:2");
  REQUIRE(machine.registry.count() == 3);
  machine.load(0).bytes_used = 4_GiB;
  machine.load(1).bytes_used = 2_GiB;
  machine.load(2).bytes_used = 1_GiB;
  CHECK(machine.least_used() == Device::cuda(2));
  CHECK(machine.most_free() == Device::cuda(2));
}

TEST_CASE("without NVML a single device is picked") {
  const Machine one("devices=1", false);
  CHECK(one.least_used() == Device::cuda(0));
  CHECK(one.most_free() == Device::cuda(0));
}

TEST_CASE("without NVML nothing is picked among several devices, and no context is made") {
  const Machine several("devices=2", false);
  const std::string message = message_of<NotSupported>([&] { return several.most_free(); });
  CHECK(contains(message, "NVML does not work (no NVML)"));
  CHECK(contains(message, "accepted without NVML: the local rank, a UUID, or an ordinal"));
  CHECK(several.simulator.live().contexts == 0);
  const NoLauncher none;
  const ScopedEnvironment launched("SLURM_LOCALID", "1");
  CHECK(several.by_rank() == Device::cuda(1));
}

TEST_CASE("if there are no devices, the error gives the reason") {
  const ScopedEnvironment hidden(kVariable, "");
  const Machine machine;
  for (const auto preference : {DevicePreference::least_used, DevicePreference::most_free_memory}) {
    const std::string message =
        message_of<InvalidArgument>([&] { return machine.pick(preference); });
    CHECK(contains(message, "there are no CUDA devices"));
  }
}

TEST_CASE_FIXTURE(Machine, "a local rank is the ordinal, and one without a device is refused") {
  const NoLauncher none;
  CHECK(contains(message_of<InvalidArgument>([&] { return by_rank(); }),
                 "accepted: one of LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK"));
  {
    const ScopedEnvironment launched("OMPI_COMM_WORLD_LOCAL_RANK", "2");
    CHECK(by_rank() == Device::cuda(2));
  }
  const ScopedEnvironment launched("LOCAL_RANK", "3");
  CHECK(message_of<InvalidArgument>([&] { return by_rank(); }) ==
        "local rank 3 by LOCAL_RANK: cuda:3: no such device: there are cuda:0 to cuda:2");
}

TEST_CASE("if the launcher shows one device to each process, any rank gets it") {
  const NoLauncher none;
  const ScopedEnvironment launched("LOCAL_RANK", "2");
  const ScopedEnvironment left(kVariable, "2");
  const Machine machine;
  REQUIRE(machine.registry.count() == 1);
  CHECK(machine.by_rank() == Device::cuda(0));
}

TEST_CASE("a machine with one device has none for a second rank") {
  const NoLauncher none;
  const ScopedEnvironment launched("LOCAL_RANK", "1");
  const ScopedEnvironment unset(kVariable, std::nullopt);
  const Machine machine("devices=1");
  CHECK(contains(message_of<InvalidArgument>([&] { return machine.by_rank(); }),
                 "cuda:1: no such device: there is cuda:0"));
}

TEST_CASE("one device left visible by a malformed variable is not given to every rank") {
  const NoLauncher none;
  const ScopedEnvironment launched("LOCAL_RANK", "1");
  const ScopedEnvironment broken(kVariable, "0,x,1");
  const Machine machine;
  REQUIRE(machine.registry.count() == 1);
  const std::string message = message_of<InvalidArgument>([&] { return machine.by_rank(); });
  CHECK(contains(message, "cuda:1: no such device"));
  CHECK(contains(message, "\"x\" is neither an ordinal"));
}

TEST_CASE_FIXTURE(Machine, "an invalid preference value is refused") {
  CHECK(contains(message_of<InvalidArgument>([&] { return pick(DevicePreference(9)); }),
                 "DevicePreference is 9; accepted: least_used, most_free_memory, local_rank"));
}

}  // namespace device_pick_test
