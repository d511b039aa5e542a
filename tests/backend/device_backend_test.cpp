// SPDX-License-Identifier: Apache-2.0
// The devices of a backend in the registry, in maps and in errors.
#include "berth/device_backend.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_guard.hpp"
#include "berth/device_map.hpp"
#include "berth/same_device.hpp"

#include "backend/backend_fixture.hpp"

namespace device_backend_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("the devices of a backend are counted, resolved and described like others") {
  BackendFixture fixture;
  const DeviceRegistry& devices = fixture.runtime().devices();
  const DeviceType fake = *DeviceType::find("fake");
  CHECK(devices.count(fake) == 2);
  CHECK(devices.is_available(fake));
  CHECK(devices.count(DeviceType::cpu()) == 1);
  CHECK(devices.count(DeviceType::cuda()) == 2);
  CHECK(devices.types() == std::vector{DeviceType::cpu(), DeviceType::cuda(), fake});
  CHECK(devices.backend_name(fake) == "fake 1.0");
  CHECK(devices.backend_name(DeviceType::cuda()).empty());

  CHECK(devices.resolve(Device::parse("fake:1")) == Device::of(fake, 1));
  CHECK(devices.resolve(Device::parse("fake")) == Device::of(fake, 0));

  const DeviceDescription description = devices.describe(Device::of(fake, 1));
  CHECK(description.name == "fake device 1");
  CHECK(description.kind == "fake v1");
  CHECK(description.memory_bytes == 1u << 30);
  REQUIRE(description.attributes.size() == 2);
  CHECK(description.attributes[0].name == "coords");
  CHECK(std::get<std::vector<std::int64_t>>(description.attributes[0].value) ==
        std::vector<std::int64_t>{1, 0, 0});

  CHECK(devices.device_memory(Device::of(fake, 0)).bytes_used == 1000);
  const MemoryInfo info = devices.memory_info(Device::of(fake, 0));
  CHECK(info.bytes_free == 4000);
  CHECK(info.bytes_total == 5000);
  fixture.machine->reports_memory = false;
  CHECK(contains(message_of<NotSupported>([&] { return devices.memory_info(Device::of(fake, 0)); }),
                 "the backend of fake:0 does not report"));
}

TEST_CASE("cpu and cuda devices are described too") {
  BackendFixture fixture;
  const DeviceRegistry& devices = fixture.runtime().devices();
  CHECK(devices.describe(Device::cpu()).memory_bytes > 0u);
  const DeviceDescription cuda = devices.describe(Device::cuda(1));
  CHECK(cuda.name == "cuda:1");
  CHECK(cuda.kind == devices.info(Device::cuda(1)).name);
  CHECK(cuda.memory_bytes == devices.info(Device::cuda(1)).memory_bytes);
}

TEST_CASE("resolving a missing device is refused, and the error lists the existing ones") {
  BackendFixture fixture;
  const DeviceRegistry& devices = fixture.runtime().devices();
  CHECK(message_of<InvalidArgument>([&] { return devices.resolve(fixture.device(2)); }) ==
        "fake:2: no such device: there are fake:0 to fake:1");
  const std::string other = message_of<InvalidArgument>(
      [&] { return devices.resolve(Device::of(DeviceType::register_name("nobody"), 0)); });
  CHECK(other ==
        "nobody:0: berth manages no devices of type nobody; accepted: cpu, and CUDA devices (there "
        "are cuda:0 to cuda:1), and fake devices (there are fake:0 to fake:1)");
  CHECK(
      contains(message_of<InvalidArgument>([&] { return devices.device_memory(Device::cuda(0)); }),
               "cuda:0 has no backend: its memory comes from an allocator; accepted: fake devices "
               "(there are fake:0 to fake:1)"));
}

TEST_CASE("an error lists only what the refusing function accepts") {
  const Device nobody = Device::of(DeviceType::register_name("nobody"), 0);
  BackendFixture fixture;
  Runtime& runtime = fixture.runtime();
  CHECK(message_of<InvalidArgument>([&] { return &runtime.streams(nobody); }) ==
        "nobody:0: berth manages no devices of type nobody; accepted: a CUDA device (there are "
        "cuda:0 to cuda:1)");
  CHECK(message_of<InvalidArgument>([&] { return runtime.devices().device_memory(nobody); }) ==
        "nobody:0: berth manages no devices of type nobody; accepted: fake devices (there are "
        "fake:0 to fake:1)");
}

TEST_CASE("without any backend the error says how to add one") {
  Simulation simulation;
  char byte = 0;
  CHECK(message_of<InvalidArgument>(
            [&] { return simulation.runtime->buffers().create(Device::cuda(0), &byte, 1); }) ==
        "cuda:0 has no backend: its memory comes from an allocator; accepted: none, until "
        "Runtime::register_backend() adds a type of devices");
}

TEST_CASE("functions that need streams or addresses refuse devices of a backend by name") {
  BackendFixture fixture;
  Runtime& runtime = fixture.runtime();
  const Device fake = fixture.device(0);
  const auto check = [](const std::string& message) {
    CHECK(message ==
          "fake:0 is not accepted here: its backend has buffers (Runtime::buffers()), but no "
          "streams, contexts or addresses; accepted: a CUDA device (there are cuda:0 to cuda:1)");
  };
  check(message_of<InvalidArgument>([&] { return &runtime.memory(fake); }));
  check(message_of<InvalidArgument>([&] { return &runtime.streams(fake); }));
  check(message_of<InvalidArgument>([&] { return &runtime.events(fake); }));
  check(message_of<InvalidArgument>([&] { return runtime.default_stream(fake); }));
  check(message_of<InvalidArgument>([&] { return bool(runtime.create_stream(fake)); }));
  check(message_of<InvalidArgument>([&] {
    runtime.devices().set_current(fake);
    return 0;
  }));
  check(message_of<InvalidArgument>([&] { return runtime.devices().facts(fake); }));
  check(message_of<InvalidArgument>([&] {
    const DeviceGuard guard(runtime.devices(), fake);
    return 0;
  }));
}

TEST_CASE("a device type accepts one backend, and berth's own types accept none") {
  BackendFixture fixture;
  const auto other = std::make_shared<FakeMachine>();
  const auto refusal = [&](std::string_view type) {
    return message_of<InvalidArgument>([&] {
      fixture.runtime().register_backend(type, std::make_unique<FakeBackend>(other));
      return 0;
    });
  };
  CHECK(refusal("fake") ==
        "device type fake has a backend (fake 1.0); accepted: one for each type");
  CHECK(contains(refusal("cpu"), "cpu is a device type of berth's own"));
  CHECK(contains(refusal("cuda"), "cuda is a device type of berth's own"));
  CHECK(contains(refusal("Fake"), "cannot name a device type"));
  CHECK(contains(message_of<InvalidArgument>([&] {
                   fixture.runtime().register_backend("fake2", nullptr);
                   return 0;
                 }),
                 "the backend of fake2 is null"));
  for (const int count : {-1, 65537}) {
    other->devices = count;
    CHECK(contains(refusal("fake2"), std::to_string(count) + " devices; accepted: 0 to 65536"));
  }
  CHECK(other->backends_live == 0);
  CHECK(fixture.runtime().devices().count(*DeviceType::find("fake2")) == 0);
  other->devices = 0;
  fixture.runtime().register_backend("fake2", std::make_unique<FakeBackend>(other));
  CHECK(message_of<InvalidArgument>([&] {
          return fixture.runtime().devices().resolve(Device::parse("fake2"));
        }) == "fake2: no such device: there are no fake2 devices");
}

TEST_CASE("device maps check the devices of backends") {
  BackendFixture fixture;
  const DeviceRegistry& devices = fixture.runtime().devices();
  const std::vector<Device> saved = {Device::cuda(0), Device::cuda(1)};
  DeviceMap::parse("cuda:1=fake:1").check(devices, saved);
  DeviceMap::parse("cuda:1=fake").check(devices, saved);
  const std::string message = message_of<InvalidArgument>([&] {
    DeviceMap::parse("cuda:1=fake:2").check(devices, saved);
    return 0;
  });
  CHECK(contains(message, "cuda:1 (goes to fake:2)"));
  CHECK(contains(message, "there are cpu, cuda:0 to cuda:1, fake:0 to fake:1"));
}

TEST_CASE("arguments on different devices are told apart") {
  BackendFixture fixture;
  CHECK(
      contains(message_of<InvalidArgument>([&] {
                 require_same_device("matmul", {{"a", fixture.device(0)}, {"b", Device::cuda(0)}});
                 return 0;
               }),
               "expected all arguments on fake:0, where \"a\" is, but \"b\" is on cuda:0"));
}

}  // namespace device_backend_test
