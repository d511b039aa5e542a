// SPDX-License-Identifier: Apache-2.0
#include "device/peer_access.hpp"

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace peer_access_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Memory final : MappedMemory {
  void grant_access(DeviceContext& /*user*/) override {
    ++asked;
    if (is_refusing) throw DriverError("refused", CUDA_ERROR_UNKNOWN);
  }
  int asked = 0;
  bool is_refusing = false;
};

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

struct TwoDevices : TappedDevice {
  TwoDevices() : TappedDevice(two_devices()) {}
  void enable() {
    const ContextScope scope(user);
    context.peer_access().enable(user);
  }
  DeviceContext& user = registry.context(Device::cuda(1));
};

}  // namespace

TEST_CASE("a partial failure to grant access is completed by the next call") {
  TwoDevices test;
  Memory memory;
  test.context.peer_access().add(memory);
  memory.is_refusing = true;
  message_of<DriverError>([&] { test.enable(); });
  memory.is_refusing = false;
  test.enable();
  CHECK(memory.asked == 2);
  test.enable();
  CHECK(memory.asked == 2);
  test.context.peer_access().remove(memory);
}

TEST_CASE("no device is granted access to memory that has been removed") {
  TwoDevices test;
  Memory memory;
  test.context.peer_access().add(memory);
  test.context.peer_access().remove(memory);
  test.enable();
  CHECK(memory.asked == 0);
}

}  // namespace peer_access_test
