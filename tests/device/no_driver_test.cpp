// SPDX-License-Identifier: Apache-2.0
// A machine without a driver: every function returns a result or an error that says so.
#include <string>

#include <doctest/doctest.h>

#include "berth/runtime.hpp"

#include "support/errors.hpp"
#include "support/reports.hpp"

namespace no_driver_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kNowhere = "/nonexistent/libcuda.so";

struct NoDriver {
  static RuntimeOptions options(Reports& reports) {
    RuntimeOptions options;
    options.driver = kNowhere;
    options.report = reports.sink();
    return options;
  }

  Reports reports;
  Runtime runtime{options(reports)};
};

}  // namespace

TEST_CASE("without a driver there are no CUDA devices, and the Runtime reports why in one line") {
  NoDriver machine;
  const DriverInfo driver = machine.runtime.driver();
  CHECK(driver.name == kNowhere);
  CHECK_FALSE(driver.usable);
  CHECK(driver.version == 0);
  CHECK(contains(driver.problem, kNowhere));
  CHECK_FALSE(contains(driver.problem, "\n"));

  const DeviceRegistry& devices = machine.runtime.devices();
  CHECK(devices.count() == 0);
  CHECK_FALSE(devices.is_available());
  CHECK(devices.visibility_problem().empty());
}

TEST_CASE("without a driver the CPU still works") {
  NoDriver machine;
  const DeviceRegistry& devices = machine.runtime.devices();
  CHECK(devices.resolve(Device::cpu()) == Device::cpu());
  CHECK(devices.memory_info(Device::cpu()).bytes_total > 0);
}

TEST_CASE("without a driver every CUDA device is refused by name") {
  NoDriver machine;
  Runtime& runtime = machine.runtime;
  const DeviceRegistry& devices = runtime.devices();
  CHECK(contains(message_of<InvalidArgument>([&] { return devices.resolve(Device::cuda(0)); }),
                 "cuda:0"));
  message_of<InvalidArgument>([&] { return devices.resolve(Device::cuda()); });
  message_of<InvalidArgument>([&] { return devices.current(); });
  message_of<InvalidArgument>([&] { devices.set_current(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { const DeviceGuard guard(devices, Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return devices.memory_info(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return &runtime.streams(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return &runtime.events(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return &runtime.memory(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return runtime.create_stream(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return runtime.default_stream(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return runtime.current_stream(Device::cuda(0)); });
}

TEST_CASE("without a driver pinned memory is refused, and a request of 0 bytes succeeds") {
  NoDriver machine;
  PinnedAllocator& pinned = machine.runtime.pinned_memory();
  message_of<NotSupported>([&] { return pinned.allocate(1); });
  message_of(pinned.try_allocate(4096), Errc::not_supported);
  CHECK_FALSE(pinned.allocate(0));
  CHECK(pinned.counters().bytes_reserved.current == 0);
  pinned.validate();
}

TEST_CASE("without a driver statistics are available and empty") {
  NoDriver machine;
  const Statistics statistics = machine.runtime.statistics();
  CHECK_FALSE(statistics.driver.usable);
  CHECK(statistics.driver_calls.empty());
  CHECK(machine.runtime.copier().counters().bytes_copied == 0);
  CHECK(contains(to_text(statistics), kNowhere));
  CHECK(contains(to_json(statistics), kNowhere));
  CHECK(machine.reports.count(Severity::error) == 0);
}

}  // namespace no_driver_test
