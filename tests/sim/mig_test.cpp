// SPDX-License-Identifier: Apache-2.0
// Devices that MIG has split, as NVML and CUDA see them.
// Source: NVIDIA Multi-Instance GPU User Guide; NVML API Reference Guide, "Multi Instance GPU
// Management".
#include "sim/device/mig.hpp"

#include "berth/error.hpp"

#include "sim/nvml_fixture.hpp"
#include "support/environment.hpp"

namespace mig_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kSplit = "devices=3,memory=8GiB,name=Some GPU,mig=1:2/2:0";

/// Drivers from R570 on show a process more than one instance.
constexpr int kOlderDriver = 12070;
constexpr int kNewerDriver = 12080;

/// Device 0 is whole, 1 has two instances, 2 is in MIG mode and has none.
struct Fixture : NvmlFixture {
  Fixture() : NvmlFixture(kSplit) {}
};

/// The UUIDs of what CUDA enumerates; empty where that is nothing.
std::vector<std::string> enumerated(const std::optional<std::string>& visible,
                                    int driver_version = kOlderDriver) {
  const ScopedEnvironment environment("CUDA_VISIBLE_DEVICES", visible);
  const NvmlFixture fixture(std::string(kSplit) +
                            ",driver_version=" + std::to_string(driver_version));
  const CUresult result = CU(cuInit)(0);
  if (result == CUDA_ERROR_NO_DEVICE) return {};
  REQUIRE(result == CUDA_SUCCESS);
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  std::vector<std::string> names;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    char name[64];
    OK(CU(cuDeviceGetName)(name, sizeof(name), ordinal));
    CUuuid uuid;
    OK(CU(cuDeviceGetUuid)(&uuid, ordinal));
    // Which instance it is shows in the UUID alone.
    std::string known = "unknown";
    for (unsigned index = 0; index < 2; ++index) {
      char first[3];
      snprintf(first, sizeof(first), "%02x", static_cast<unsigned char>(uuid.bytes[0]));
      const std::string instance = nvml_uuid(nvml_instance(nvml_device(1), index));
      if (instance.substr(4, 2) == first) known = "instance " + std::to_string(index);
    }
    names.push_back(std::string(name) == "Some GPU" ? "whole" : known);
  }
  return names;
}

using Names = std::vector<std::string>;

std::string instance_uuid(unsigned index) {
  const NvmlFixture fixture(kSplit);
  return nvml_uuid(nvml_instance(nvml_device(1), index));
}

std::string device_uuid(unsigned index) {
  const NvmlFixture fixture(kSplit);
  return nvml_uuid(nvml_device(index));
}

}  // namespace

TEST_CASE("instances of equal parts have the largest possible size") {
  struct Part {
    int count;
    int compute_slices;
    int memory_slices;
    int multiprocessors;
  };
  for (const Part& part : {Part{1, 7, 8, 132}, Part{2, 3, 4, 60}, Part{3, 2, 2, 32},
                           Part{4, 1, 2, 16}, Part{7, 1, 1, 16}}) {
    const sim::MigInstance instance = sim::mig_instance(0, 0, part.count);
    CAPTURE(part.count);
    CHECK(instance.compute_slices == part.compute_slices);
    CHECK(instance.memory_slices == part.memory_slices);
    CHECK(instance.multiprocessors() == part.multiprocessors);
  }
}

TEST_CASE("a malformed or impossible split is refused") {
  for (const char* text :
       {"mig=", "mig=1", "mig=0:", "mig=:1", "mig=0:8", "mig=0:-1", "mig=-1:1", "mig=0:1/",
        "mig=0:1/0:2", "mig=1:1", "mig=0:99999999999", "mig=0:1;", "mig=on", "devices=64,mig=0:1",
        "devices=60,mig=0:5", "memory=8MiB,mig=0:7"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sim::Config::parse(text), InvalidArgument);
  }
  CHECK_NOTHROW(sim::Config::parse("devices=60,mig=0:4"));
  CHECK_NOTHROW(sim::Config::parse("memory=16MiB,mig=0:7"));
}

TEST_CASE_FIXTURE(Fixture,
                  "NVML reports the MIG mode of each device and its maximum number of instances") {
  const unsigned expected[3][2] = {{0, 0}, {1, 7}, {1, 7}};
  unsigned devices = 0;
  CHECK(CU(nvmlDeviceGetCount_v2)(&devices) == nvml::kSuccess);
  CHECK(devices == 3);
  for (unsigned index = 0; index < 3; ++index) {
    unsigned current = 9;
    unsigned pending = 9;
    unsigned most = 9;
    CHECK(CU(nvmlDeviceGetMigMode)(nvml_device(index), &current, &pending) == nvml::kSuccess);
    CHECK(CU(nvmlDeviceGetMaxMigDeviceCount)(nvml_device(index), &most) == nvml::kSuccess);
    CHECK(current == expected[index][0]);
    CHECK(pending == current);
    CHECK(most == expected[index][1]);
  }
}

TEST_CASE_FIXTURE(Fixture, "an instance has its device, its index and its size") {
  for (unsigned index = 0; index < 2; ++index) {
    const nvml::Device instance = nvml_instance(nvml_device(1), index);
    nvml::Device parent = nullptr;
    CHECK(CU(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(instance, &parent) == nvml::kSuccess);
    CHECK((parent == nvml_device(1)));
    unsigned number = 9;
    CHECK(CU(nvmlDeviceGetIndex)(instance, &number) == nvml::kSuccess);
    CHECK(number == index);
    CHECK(CU(nvmlDeviceIsMigDeviceHandle)(instance, &number) == nvml::kSuccess);
    CHECK(number == 1);
    CHECK(CU(nvmlDeviceGetGpuInstanceId)(instance, &number) == nvml::kSuccess);
    CHECK(number == index + 1);
    CHECK(CU(nvmlDeviceGetComputeInstanceId)(instance, &number) == nvml::kSuccess);
    CHECK(number == 0);
    CHECK(nvml_name(instance) == "Some GPU MIG 3g.4gb");
    CHECK(nvml_memory(instance).total == 4ULL << 30);
    CHECK(nvml_uuid(instance).substr(0, 4) == "MIG-");
    nvml::Device found = nullptr;
    CHECK(CU(nvmlDeviceGetHandleByUUID)(nvml_uuid(instance).c_str(), &found) == nvml::kSuccess);
    CHECK((found == instance));
    nvml::DeviceAttributes attributes{};
    CHECK(CU(nvmlDeviceGetAttributes_v2)(instance, &attributes) == nvml::kSuccess);
    CHECK(attributes.multiprocessorCount == 60);
    CHECK(attributes.memorySizeMB == 4096);
    CHECK(attributes.gpuInstanceSliceCount == 3);
  }
  CHECK(nvml_uuid(nvml_instance(nvml_device(1), 0)) != nvml_uuid(nvml_instance(nvml_device(1), 1)));
}

TEST_CASE_FIXTURE(Fixture, "instances that are not there are refused") {
  nvml::Device instance = nullptr;
  const auto get = [&](nvml::Device device, unsigned index) {
    return CU(nvmlDeviceGetMigDeviceHandleByIndex)(device, index, &instance);
  };
  CHECK(get(nvml_device(0), 0) == nvml::kNotSupported);
  CHECK(get(nvml_device(1), 2) == nvml::kNotFound);
  CHECK(get(nvml_device(2), 0) == nvml::kNotFound);
  CHECK(get(nvml_device(1), 7) == nvml::kInvalidArgument);
  CHECK(get(nvml_instance(nvml_device(1), 0), 0) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetMigDeviceHandleByIndex)(nvml_device(1), 0, nullptr) ==
        nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(Fixture, "functions for instances refuse devices, and vice versa") {
  const nvml::Device device = nvml_device(1);
  const nvml::Device instance = nvml_instance(device, 0);
  unsigned number = 9;
  nvml::Device other = nullptr;
  nvml::DeviceAttributes attributes{};
  nvml::PciInfo pci{};
  CHECK(CU(nvmlDeviceGetGpuInstanceId)(device, &number) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetComputeInstanceId)(device, &number) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(device, &other) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetAttributes_v2)(device, &attributes) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceIsMigDeviceHandle)(device, &number) == nvml::kSuccess);
  CHECK(number == 0);
  CHECK(CU(nvmlDeviceGetMigMode)(instance, &number, &number) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetMaxMigDeviceCount)(instance, &number) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetMinorNumber)(instance, &number) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetPciInfo_v3)(instance, &pci) == nvml::kInvalidArgument);
}

TEST_CASE("before R570 CUDA enumerates one instance and no other device") {
  CHECK(enumerated(std::nullopt) == Names{"instance 0"});
  CHECK(enumerated(instance_uuid(0)) == Names{"instance 0"});
  CHECK(enumerated(instance_uuid(1)) == Names{"instance 1"});
  CHECK(enumerated(instance_uuid(1) + "," + instance_uuid(0)) == Names{"instance 1"});
  CHECK(enumerated("MIG-" + device_uuid(1) + "/2/0") == Names{"instance 1"});
  CHECK(enumerated("0") == Names{"whole"});
  CHECK(enumerated(device_uuid(0)) == Names{"whole"});
  CHECK(enumerated("1") == Names{"instance 0"});
  CHECK(enumerated("0,1") == Names{"instance 0"});
}

TEST_CASE("since R570 CUDA enumerates every instance and whole devices") {
  const auto newer = [](const std::optional<std::string>& visible) {
    return enumerated(visible, kNewerDriver);
  };
  CHECK(newer(std::nullopt) == Names{"whole", "instance 0", "instance 1"});
  CHECK(newer("1,0") == Names{"instance 0", "instance 1", "whole"});
  CHECK(newer(instance_uuid(1)) == Names{"instance 1"});
  CHECK(newer(instance_uuid(1) + "," + instance_uuid(0)) == Names{"instance 1", "instance 0"});
  CHECK(newer(instance_uuid(1) + "," + instance_uuid(1)) == Names{});
  CHECK(newer(instance_uuid(1) + ",0") == Names{"instance 1"});
}

TEST_CASE("CUDA enumerates neither a split device without instances nor an unknown instance") {
  CHECK(enumerated("2") == Names{});
  CHECK(enumerated("2,0") == Names{"whole"});
  CHECK(enumerated("MIG-" + device_uuid(1) + "/3/0") == Names{});
  CHECK(enumerated("MIG-" + device_uuid(0) + "/1/0") == Names{});
  CHECK(enumerated("MIG-") == Names{});
  CHECK(enumerated(instance_uuid(1).substr(0, 20)) == Names{});
}

TEST_CASE("an instance's memory is its own, and counts for its device") {
  const ScopedEnvironment second("CUDA_VISIBLE_DEVICES", instance_uuid(1));
  const SimFixture fixture(kSplit);
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  std::size_t bytes = 0;
  OK(CU(cuDeviceTotalMem)(&bytes, 0));
  CHECK(bytes == 4ULL << 30);
  int multiprocessors = 0;
  OK(CU(cuDeviceGetAttribute)(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  CHECK(multiprocessors == 60);
  CUdeviceptr refused = 0;
  CHECK(CU(cuMemAlloc)(&refused, 5ULL << 30) == CUDA_ERROR_OUT_OF_MEMORY);

  const CUdeviceptr memory = make_memory(64 << 20);
  OK(CU(cuMemsetD8Async)(memory, 5, 64 << 20, nullptr));
  CHECK(fixture.sim.peek(memory, 16) == bytes_of(16, 5));
  const nvml::Device device = nvml_device(1);
  const nvml::Device instances[] = {nvml_instance(device, 0), nvml_instance(device, 1)};
  CHECK(nvml_memory(instances[0]).used == 0);
  CHECK(nvml_memory(instances[1]).used == 64 << 20);
  CHECK(nvml_memory(device).used == 64 << 20);
  CHECK(nvml_memory(device).total == 8ULL << 30);
  // Slots: three devices, then the instances.
  CHECK(fixture.sim.device_bytes_used(4) == 64 << 20);

  for (const nvml::Device listed : {instances[1], device}) {
    nvml::ProcessInfo process{};
    unsigned count = 1;
    CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(listed, &count, &process) == nvml::kSuccess);
    CHECK(count == 1);
    CHECK(process.gpuInstanceId == 2);
    CHECK(process.computeInstanceId == 0);
    CHECK(process.usedGpuMemory == 64 << 20);
  }
  unsigned count = 0;
  CHECK(CU(nvmlDeviceGetComputeRunningProcesses_v3)(instances[0], &count, nullptr) ==
        nvml::kSuccess);
}

TEST_CASE_FIXTURE(Fixture, "split devices reach no peer") {
  nvml::P2pStatus status = nvml::kP2pOk;
  CHECK(CU(nvmlDeviceGetP2PStatus)(nvml_device(0), nvml_device(1), nvml::kP2pRead, &status) ==
        nvml::kSuccess);
  CHECK(status == nvml::kP2pNotSupported);
}

}  // namespace mig_test
