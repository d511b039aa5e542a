// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "cudart/cudart_fixture.hpp"

namespace cudart_device_test {

using namespace berth::test;

TEST_CASE_FIXTURE(EagerRuntime, "the versions are those of the library and of the driver") {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  CHECK(version == kRuntimeVersion);
  OK(cudaDriverGetVersion(&version));
  CHECK(version == 13020);
  CHECK(cudaRuntimeGetVersion(nullptr) == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "counting and choosing devices creates no context, but setting one does") {
  int count = 0;
  int device = -1;
  OK(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  OK(cudaGetDevice(&device));
  CHECK(device == 0);
  CHECK(sim.live().contexts == 0);
  OK(cudaSetDevice(1));
  OK(cudaGetDevice(&device));
  CHECK(device == 1);
  CHECK(sim.live().contexts == 1);
}

TEST_CASE_FIXTURE(EagerRuntime, "a device that does not exist is refused and changes nothing") {
  int device = -1;
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  OK(cudaGetDevice(&device));
  CHECK(device == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "each thread has its own current device") {
  OK(cudaSetDevice(1));
  int device = -1;
  std::thread([&] { cudaGetDevice(&device); }).join();
  CHECK(device == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "cudaFree of null initializes the device") {
  OK(cudaFree(nullptr));
  CHECK(sim.live().contexts == 1);
}

TEST_CASE_FIXTURE(EagerRuntime, "a context that the program made current is used") {
  CUcontext context = nullptr;
  REQUIRE(berth::sim::berth_sim_cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  REQUIRE(berth::sim::berth_sim_cuCtxPushCurrent(context) == CUDA_SUCCESS);
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(device == 1);
  PointerAttributes attributes{};
  OK(get_attributes(&attributes, make_memory(100)));
  CHECK(attributes.device == 1);
  REQUIRE(berth::sim::berth_sim_cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
  OK(cudaGetDevice(&device));
  CHECK(device == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "a call asks the simulated driver for no current context") {
  OK(cudaFree(nullptr));
  const auto calls = sim.calls("cuCtxGetCurrent");
  int device = -1;
  OK(cudaGetDevice(&device));
  make_memory(64);
  OK(cudaDeviceSynchronize());
  CHECK(sim.calls("cuCtxGetCurrent") == calls);
}

TEST_CASE_FIXTURE(EagerRuntime, "the properties agree with the attributes") {
  DeviceProperties properties;
  std::memset(&properties, 0xff, sizeof properties);
  OK(get_properties(&properties, 1));
  CHECK(std::string(properties.name) == "Simulated GPU");
  CHECK(properties.totalGlobalMem == 1ULL << 30);
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    OK(cudaDeviceGetAttribute(&value, which, 1));
    return value;
  };
  CHECK(properties.major == attribute(cudaDevAttrComputeCapabilityMajor));
  CHECK(properties.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount));
  CHECK(properties.maxThreadsDim[2] == attribute(cudaDevAttrMaxBlockDimZ));
  CHECK(properties.pciBusID == attribute(cudaDevAttrPciBusId));
  CHECK(properties.l2CacheSize == attribute(cudaDevAttrL2CacheSize));
  CHECK(properties.memoryPoolsSupported == 1);
  CHECK(get_properties(&properties, 2) == cudaErrorInvalidDevice);
  CHECK(get_properties(nullptr, 0) == cudaErrorInvalidValue);
}

#if BERTH_CUDART_MAJOR == 12
TEST_CASE_FIXTURE(EagerRuntime,
                  "cudaDeviceProp in the layout of CUDA 11 is not written past its end") {
  DeviceProperties properties;
  std::memset(&properties, 0x5a, sizeof properties);
  OK(get_properties_11(&properties, 0));
  CHECK(properties.clockRate > 0);
  CHECK(properties.reservedSharedMemPerBlock == 1024);
  CHECK(properties.hostRegisterSupported == 0x5a5a5a5a);
}
#endif

TEST_CASE_FIXTURE(EagerRuntime, "PCI bus ids lead back to their device") {
  char text[32] = "";
  int device = -1;
  OK(cudaDeviceGetPCIBusId(text, sizeof text, 1));
  OK(cudaDeviceGetByPCIBusId(&device, text));
  CHECK(device == 1);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "peer access is enabled once, disabled once, and never to the own device") {
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  OK(cudaDeviceDisablePeerAccess(1));
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(7, 0) == cudaErrorInvalidDevice);
}

TEST_CASE_FIXTURE(
    EagerRuntime,
    "a device reset frees the device's memory, and the next call creates a new context") {
  unsigned char* const before = make_memory(100);
  OK(cudaDeviceReset());
  CHECK(sim.live().contexts == 0);
  CHECK(sim.live().allocations == 0);
  unsigned char* const after = make_memory(100);
  CHECK(sim.live().contexts == 1);
  OK(cudaFree(after));
  if (after != before) CHECK(cudaFree(before) == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(EagerRuntime, "the flags of a device are those that were set") {
  OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  unsigned flags = 0;
  OK(cudaGetDeviceFlags(&flags));
  CHECK((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
  CHECK((flags & cudaDeviceMapHost) != 0);
}

}  // namespace cudart_device_test
