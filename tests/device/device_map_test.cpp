// SPDX-License-Identifier: Apache-2.0
#include "berth/device_map.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"
#include "berth/runtime.hpp"

#include "sim/simulator.hpp"
#include "support/errors.hpp"

namespace device_map_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kCpu = Device::cpu();

Device cuda(int ordinal) {
  return Device::cuda(ordinal);
}

struct Machine {
  explicit Machine(const char* config) : simulator(config) {
    RuntimeOptions options;
    options.driver = "sim";
    runtime.emplace(options);
  }
  [[nodiscard]] const DeviceRegistry& devices() const { return runtime->devices(); }

  sim::Simulator simulator;
  std::optional<Runtime> runtime;
};

}  // namespace

TEST_CASE("a device map without entries maps each device to itself") {
  const DeviceMap map;
  for (const Device device : {kCpu, cuda(0), cuda(7), Device::cuda()}) CHECK(map(device) == device);
}

TEST_CASE("a table maps the devices that it names, and no others") {
  const DeviceMap map{{cuda(1), kCpu}, {cuda(2), cuda(0)}, {kCpu, cuda(1)}};
  CHECK(map(cuda(1)) == kCpu);
  CHECK(map(cuda(2)) == cuda(0));
  CHECK(map(kCpu) == cuda(1));
  CHECK(map(cuda(0)) == cuda(0));
  CHECK(map(cuda(3)) == cuda(3));
  const DeviceMap one{{cuda(1), kCpu}};
  CHECK(one(cuda(1)) == kCpu);
  CHECK(one(cuda(2)) == cuda(2));
}

TEST_CASE("an entry for the current device applies to no numbered device") {
  const DeviceMap map{{Device::cuda(), kCpu}};
  CHECK(map(Device::cuda()) == kCpu);
  CHECK(map(cuda(0)) == cuda(0));
}

TEST_CASE("all_to() maps all devices to one, and a function maps each device") {
  const DeviceMap all = DeviceMap::all_to(cuda(3));
  for (const Device device : {kCpu, cuda(0), Device::cuda()}) CHECK(all(device) == cuda(3));
  const DeviceMap shifted(
      [](Device saved) { return saved.is_cuda() ? Device::cuda(saved.ordinal() / 2) : saved; });
  CHECK(shifted(cuda(5)) == cuda(2));
  CHECK(shifted(kCpu) == kCpu);
  const DeviceMap throwing([](Device) -> Device { throw std::out_of_range("no"); });
  CHECK_THROWS_AS(static_cast<void>(throwing(kCpu)), std::out_of_range);
  message_of<InvalidArgument>([] { return DeviceMap(DeviceMap::Function()); });
}

TEST_CASE("text maps named devices, and a star maps all others") {
  const DeviceMap map = DeviceMap::parse("cuda:1=cpu,cuda:2=cuda:0");
  CHECK(map(cuda(1)) == kCpu);
  CHECK(map(cuda(2)) == cuda(0));
  CHECK(map(cuda(3)) == cuda(3));
  for (const char* const text : {"cuda:1=cuda:5,*=cpu", "*=cpu,cuda:1=cuda:5"}) {
    const DeviceMap starred = DeviceMap::parse(text);
    CHECK(starred(cuda(1)) == cuda(5));
    CHECK(starred(cuda(0)) == kCpu);
    CHECK(starred(kCpu) == kCpu);
  }
  CHECK(DeviceMap::parse("cpu:0=cuda")(kCpu) == Device::cuda());
}

TEST_CASE("malformed text is refused with the quoted entry and the accepted forms") {
  struct Case {
    const char* text;
    const char* quoted;
    const char* reason;
  };
  for (const Case& wrong :
       {Case{"", "\"\"", "empty"}, Case{"cuda:1=cpu,", "\"\"", "empty"},
        Case{",cuda:1=cpu", "\"\"", "empty"}, Case{"cuda:1=cpu,,cuda:2=cpu", "\"\"", "empty"},
        Case{"cuda:1", "\"cuda:1\"", "perhaps \"*=cuda:1\""}, Case{"cpu", "\"cpu\"", "\"*=cpu\""},
        Case{"gpus", "\"gpus\"", "no ="}, Case{"cuda:1=", "\"cuda:1=\"", "empty"},
        Case{"=cpu", "\"=cpu\"", "empty"},
        Case{"cuda:1 =cpu", "\"cuda:1 =cpu\"", "after the ordinal"},
        Case{"cuda:1=cpu, cuda:2=cpu", "\" cuda:2=cpu\"", "unknown device type"},
        Case{"cuda:01=cpu", "\"cuda:01=cpu\"", "leading zero"},
        Case{"cuda:1=cpu=cpu", "\"cuda:1=cpu=cpu\"", "does not name a device"},
        Case{"cuda:1=gpu:0", "\"cuda:1=gpu:0\"", "perhaps \"cuda:0\""},
        Case{"cuda:1=*", "\"cuda:1=*\"", "does not name a device"},
        Case{"**=cpu", "\"**=cpu\"", "does not name a device"},
        Case{"cuda:1=cpu;cuda:2=cpu", "\"cuda:1=cpu;cuda:2=cpu\"", "does not name a device"},
        Case{"cuda:4294967297=cpu", "\"cuda:4294967297=cpu\"", "too large"}}) {
    CAPTURE(wrong.text);
    const std::string message =
        message_of(DeviceMap::try_parse(wrong.text), Errc::invalid_argument);
    CHECK(contains(message, wrong.quoted));
    CHECK(contains(message, wrong.reason));
    CHECK(contains(message, "accepted: entries such as cuda:1=cpu"));
    CHECK(message_of<InvalidArgument>([&] { return DeviceMap::parse(wrong.text); }) == message);
  }
}

TEST_CASE("a device that is named twice is refused, in text and in a table") {
  for (const char* const text : {"cuda:1=cpu,cuda:1=cuda:0", "cuda:1=cpu,cuda:1=cpu"}) {
    CHECK(contains(message_of(DeviceMap::try_parse(text), Errc::invalid_argument), "cuda:1 twice"));
  }
  CHECK(contains(message_of(DeviceMap::try_parse("*=cpu,*=cpu"), Errc::invalid_argument),
                 "\"*\" twice"));
  CHECK(
      contains(message_of(DeviceMap::try_parse("cpu=cuda:0,cpu:0=cuda:0"), Errc::invalid_argument),
               "cpu twice"));
  const std::string message = message_of<InvalidArgument>([] {
    return DeviceMap{{cuda(1), kCpu}, {cuda(2), kCpu}, {cuda(1), cuda(0)}};
  });
  CHECK(contains(message, "cuda:1 twice"));
}

TEST_CASE("check() reports all missing devices of saved data at once") {
  const Machine machine("devices=2,memory=1GiB");
  const std::vector<Device> saved = {cuda(3), cuda(0), kCpu, cuda(7), cuda(3), Device::cuda()};
  const std::string message = message_of<InvalidArgument>([&] {
    DeviceMap().check(machine.devices(), saved);
    return 0;
  });
  CHECK(contains(message, "cuda:3 (stays there), cuda:7 (stays there)"));
  CHECK(contains(message, "cpu, cuda:0 to cuda:1"));
  CHECK(contains(message, "\"cuda:3=cpu,cuda:7=cpu\" or \"*=cpu\""));
  CHECK_FALSE(contains(message, "cuda:0="));
  const DeviceMap map = DeviceMap::parse("cuda:3=cpu,cuda:7=cuda:2");
  const std::string again = message_of<InvalidArgument>([&] {
    map.check(machine.devices(), saved);
    return 0;
  });
  CHECK(contains(again, "cuda:7 (goes to cuda:2)"));
  CHECK_FALSE(contains(again, "cuda:3"));
  // What a message proposes is accepted.
  DeviceMap::parse("cuda:3=cpu,cuda:7=cpu").check(machine.devices(), saved);
  DeviceMap::all_to(kCpu).check(machine.devices(), saved);
  DeviceMap().check(machine.devices(), {});
}

TEST_CASE("check() accepts devices of other types, and only the CPU on a machine without devices") {
  const Device npu = Device::of(DeviceType::register_name("npu"), 9);
  {
    const Machine machine("devices=1,memory=1GiB");
    DeviceMap().check(machine.devices(), std::vector{npu, cuda(0)});
    const std::string message = message_of<InvalidArgument>([&] {
      DeviceMap().check(machine.devices(), std::vector{cuda(1)});
      return 0;
    });
    CHECK(contains(message, "there are cpu, cuda:0;"));
  }
  RuntimeOptions options;
  options.driver = "/nonexistent/libcuda.so.1";
  const Runtime runtime(options);
  const std::string message = message_of<InvalidArgument>([&] {
    DeviceMap().check(runtime.devices(), std::vector{Device::cuda(), cuda(0)});
    return 0;
  });
  CHECK(contains(message, "cuda (stays there), cuda:0 (stays there)"));
  DeviceMap::all_to(kCpu).check(runtime.devices(), std::vector{cuda(0)});
}

}  // namespace device_map_test
