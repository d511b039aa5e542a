// SPDX-License-Identifier: Apache-2.0
// Source: NVML API Reference Guide, "Device Queries".
#include <unistd.h>

#include "sim/nvml_fixture.hpp"

namespace nvml_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Fixture : EagerFixture {
  Fixture() { REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "both forms of memory information agree with CUDA") {
  make_memory(16 << 20);
  sim.set_device_memory_limit(0, 100 << 20);
  std::size_t free = 0;
  std::size_t total = 0;
  OK(CU(cuMemGetInfo)(&free, &total));
  nvml::MemoryV2 memory{};
  memory.version = nvml::kMemoryV2Version;
  CHECK(CU(nvmlDeviceGetMemoryInfo_v2)(nvml_device(0), &memory) == nvml::kSuccess);
  CHECK(memory.total == total);
  CHECK(memory.free == free);
  CHECK(memory.free == 84 << 20);
  CHECK(memory.used == total - free);
  CHECK(nvml_memory(nvml_device(0)).free == free);
  CHECK(nvml_memory(nvml_device(1)).used == 0);
}

TEST_CASE_FIXTURE(Fixture, "the version of memory information is checked") {
  nvml::MemoryV2 memory{};
  for (const unsigned version :
       {0U, 2U, nvml::kMemoryV2Version + 1, nvml::kMemoryV2Version | 3U << 24}) {
    memory.version = version;
    CHECK(CU(nvmlDeviceGetMemoryInfo_v2)(nvml_device(0), &memory) ==
          nvml::kArgumentVersionMismatch);
  }
  CHECK(memory.total == 0);
  CHECK(CU(nvmlDeviceGetMemoryInfo_v2)(nvml_device(0), nullptr) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(Fixture,
                  "this process is listed on the devices where it has a context or memory") {
  const auto list = [](unsigned device, nvml::ProcessInfo* processes, unsigned& count) {
    return CU(nvmlDeviceGetComputeRunningProcesses_v3)(nvml_device(device), &count, processes);
  };
  nvml::ProcessInfo processes[2] = {};
  unsigned count = 2;
  CHECK(list(1, processes, count) == nvml::kSuccess);
  CHECK(count == 0);
  count = 2;
  CHECK(list(0, processes, count) == nvml::kSuccess);
  REQUIRE(count == 1);
  CHECK(processes[0].pid == static_cast<unsigned>(getpid()));
  CHECK(processes[0].usedGpuMemory == 0);
  CHECK(processes[0].gpuInstanceId == nvml::kNoInstance);
  CHECK(processes[0].computeInstanceId == nvml::kNoInstance);
  const CUmemAllocationProp properties = properties_on(1);
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemCreate)(&handle, 4 << 20, &properties, 0));
  CHECK(list(1, processes, count) == nvml::kSuccess);
  CHECK(count == 1);
  CHECK(processes[0].usedGpuMemory == 4 << 20);
  OK(CU(cuMemRelease)(handle));
  CHECK(list(1, processes, count) == nvml::kSuccess);
  CHECK(count == 0);
}

TEST_CASE_FIXTURE(Fixture, "a list that is too short reports the required length") {
  unsigned count = 0;
  const nvml::Device device = nvml_device(0);
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, nullptr) ==
        nvml::kInsufficientSize);
  CHECK(count == 1);
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, nullptr) ==
        nvml::kInvalidArgument);
  count = 0;
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(nvml_device(1), &count, nullptr) ==
        nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(device, nullptr, nullptr) ==
        nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(Fixture, "the first form of a list of processes has no instances of MIG") {
  nvml::ProcessInfoV1 processes[2] = {};
  processes[1].pid = 7;
  unsigned count = 1;
  const nvml::Device device = nvml_device(0);
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses)(device, &count, processes) == nvml::kSuccess);
  CHECK(count == 1);
  CHECK(processes[0].pid == static_cast<unsigned>(getpid()));
  CHECK(processes[0].usedGpuMemory == 0);
  CHECK(processes[1].pid == 7);
  count = 0;
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses)(device, &count, nullptr) ==
        nvml::kInsufficientSize);
  CHECK(CU(nvmlDeviceGetGraphicsRunningProcesses)(device, &count, nullptr) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetMPSComputeRunningProcesses)(device, &count, nullptr) == nvml::kSuccess);
  CHECK(count == 0);
}

TEST_CASE_FIXTURE(Fixture, "nothing but CUDA runs on a simulated device") {
  const nvml::Device device = nvml_device(0);
  unsigned count = 7;
  CHECK(CU(nvmlDeviceGetGraphicsRunningProcesses_v3)(device, &count, nullptr) == nvml::kSuccess);
  CHECK(count == 0);
  count = 7;
  CHECK(CU(nvmlDeviceGetMPSComputeRunningProcesses_v3)(device, &count, nullptr) == nvml::kSuccess);
  CHECK(count == 0);
  CHECK(CU(nvmlDeviceGetGraphicsRunningProcesses_v3)(device, nullptr, nullptr) ==
        nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(Fixture, "a process has the name that it was started by, cut to the buffer") {
  const auto own = static_cast<unsigned>(getpid());
  char name[1024] = {};
  CHECK(CU(nvmlSystemGetProcessName)(own, name, sizeof(name)) == nvml::kSuccess);
  const std::string whole = name;
  CHECK(whole.find("sim_test") != std::string::npos);
  CHECK(CU(nvmlSystemGetProcessName)(own, name, 4) == nvml::kSuccess);
  CHECK(std::string(name) == whole.substr(0, 3));
  CHECK(CU(nvmlSystemGetProcessName)(own, name, 0) == nvml::kInvalidArgument);
  CHECK(CU(nvmlSystemGetProcessName)(own, nullptr, 4) == nvml::kInvalidArgument);
  CHECK(CU(nvmlSystemGetProcessName)(0xfffffff0, name, 4) == nvml::kNotFound);
}

TEST_CASE("a lost device cannot be queried, and keeps its name") {
  const SimFixture fixture("devices=2,memory=1GiB,faults=cuMemAlloc@1=lost:0");
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  CHECK(nvml_memory(nvml_device(0)).used == 0);
  CUdeviceptr memory = 0;
  CHECK(CU(cuMemAlloc)(&memory, 512) != CUDA_SUCCESS);
  nvml::Memory known{};
  unsigned count = 0;
  CHECK(CU(nvmlDeviceGetMemoryInfo)(nvml_device(0), &known) == nvml::kGpuIsLost);
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(nvml_device(0), &count, nullptr) ==
        nvml::kGpuIsLost);
  CHECK(nvml_name(nvml_device(0)) == "Simulated GPU");
  CHECK(nvml_memory(nvml_device(1)).used == 0);
}

}  // namespace nvml_memory_test
