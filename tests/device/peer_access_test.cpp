// SPDX-License-Identifier: Apache-2.0
#include "device/peer_access.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/meanwhile.hpp"
#include "support/tapped_device.hpp"

namespace peer_access_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Memory final : MappedMemory {
  void grant_access(DeviceContext& /*user*/) override {
    ++asked;
    if (const auto action = std::exchange(meanwhile, nullptr)) action();
    if (is_refusing) throw DriverError("refused", CUDA_ERROR_UNKNOWN);
  }
  std::atomic<int> asked = 0;
  std::function<void()> meanwhile;  ///< called once, in the next call
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

TEST_CASE("a device that is granted access gets that to memory which is added meanwhile") {
  TwoDevices test;
  Memory memory;
  Memory later;
  test.context.peer_access().add(memory);
  memory.meanwhile = [&] { test.context.peer_access().add(later); };
  test.enable();
  CHECK(later.asked > 0);
  Memory last;
  test.context.peer_access().add(last);
  CHECK(last.asked == 1);
  for (Memory* each : {&memory, &later, &last}) test.context.peer_access().remove(*each);
}

TEST_CASE("two calls that give the same access at a time both return with it, whichever fails") {
  TwoDevices test;
  Memory memory;
  Memory refusing;
  test.context.peer_access().add(memory);
  test.context.peer_access().add(refusing);
  memory.meanwhile = [&] {
    test.enable();
    CHECK(refusing.asked == 1);
    refusing.is_refusing = true;
  };
  message_of<DriverError>([&] { test.enable(); });
  const int asked = refusing.asked;
  test.enable();
  CHECK(refusing.asked == asked);
  for (Memory* each : {&memory, &refusing}) test.context.peer_access().remove(*each);
}

TEST_CASE("memory that is removed while it grants access exists until then") {
  TwoDevices test;
  std::optional<Memory> memory(std::in_place);
  Memory last;
  test.context.peer_access().add(*memory);
  test.context.peer_access().add(last);
  Meanwhile removes([&] { test.context.peer_access().remove(*memory); });
  memory->meanwhile = [&] { removes.start(); };
  test.enable();
  CHECK_FALSE(removes.was_done());
  removes.join();
  CHECK(last.asked == 1);
  test.context.peer_access().remove(last);
  CHECK(test.context.peer_access().is_empty());
}

}  // namespace peer_access_test
