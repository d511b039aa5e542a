// SPDX-License-Identifier: Apache-2.0
// Devices by their address, and the links between them.
#include "sim/sim_fixture.hpp"

namespace device_lookup_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr auto kAccess = CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;

CUresult look_up(const char* text, CUdevice& device) {
  device = -1;
  return CU(cuDeviceGetByPCIBusId)(&device, text);
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "a device is found by its address, in each of its forms") {
  CUdevice device = -1;
  for (CUdevice wanted : {0, 1}) {
    char text[16];
    OK(CU(cuDeviceGetPCIBusId)(text, sizeof text, wanted));
    CHECK(look_up(text, device) == CUDA_SUCCESS);
    CHECK(device == wanted);
  }
  for (const char* text : {"0000:1a:00.0", "0:1A:0", "1a:00.0"}) {
    CHECK(look_up(text, device) == CUDA_SUCCESS);
    CHECK(device == 0);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "an address of no device and no address are distinguished") {
  CUdevice device = -1;
  for (const char* text : {"0000:77:00.0", "0001:1a:00.0", "0000:1a:01.0", "0000:1a:00.1"})
    CHECK(look_up(text, device) == CUDA_ERROR_INVALID_DEVICE);
  for (const char* text :
       {"", ":", "1a", "1a:00", "0:0:1a:00.0", "0000:1a:00.", "0000:1a:00.0 ", "0000:1g:00.0",
        " 1a:00.0", "-1:1a:00.0", "0000:1a:00.0.0", "::.", "fffffffff:1a:00.0"}) {
    CAPTURE(text);
    CHECK(look_up(text, device) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(look_up(nullptr, device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetByPCIBusId)(nullptr, "1a:00.0") == CUDA_ERROR_INVALID_VALUE);
  CHECK(device == -1);
}

TEST_CASE("the attributes of a link agree with peer access") {
  for (const bool peer : {true, false}) {
    const SimFixture fixture(peer ? "devices=2" : "devices=2,peer=off");
    int value = 9;
    CHECK(CU(cuDeviceGetP2PAttribute)(&value, kAccess, 0, 1) == CUDA_SUCCESS);
    CHECK(value == (peer ? 1 : 0));
    CHECK(CU(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1, 0) ==
          CUDA_SUCCESS);
    CHECK(value == 0);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "a link needs two devices, and an attribute that exists") {
  int value = 9;
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, kAccess, 0, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, kAccess, 0, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, kAccess, -1, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDeviceGetP2PAttribute)(nullptr, kAccess, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, static_cast<CUdevice_P2PAttribute>(0), 0, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, static_cast<CUdevice_P2PAttribute>(6), 0, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(value == 9);
}

}  // namespace device_lookup_test
