// SPDX-License-Identifier: Apache-2.0
// The layers below memory and copies, without a Runtime: a simulated driver with taps, the devices,
// and one device's context, events and streams.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "memory/order/stream_table.hpp"
#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/hardware.hpp"
#include "support/reports.hpp"
#include "support/work_log.hpp"

namespace berth::test {

/// Destruction fails the test if an object is still alive in the driver.
struct TappedDevice {
  explicit TappedDevice(sim::Config config = {}) : simulator(on_hardware(std::move(config))) {}

  [[nodiscard]] Stream stream() { return Stream(context, {}); }
  [[nodiscard]] StreamRef legacy_stream() { return {context, nullptr}; }
  /// Marks the current work of `stream`.
  [[nodiscard]] SharedEvent record(StreamRef stream) {
    auto event = std::make_shared<EventLease>(events.acquire());
    event->ref().record(stream);
    return event;
  }
  /// Another thread runs `task` just after this thread's next `call` has returned.
  void meanwhile(DriverCall call, std::function<void()> task) {
    tap.after(call, [task = std::move(task)] { std::thread(task).join(); });
  }
  /// Runs all operations of `stream` that may run, and none of other streams.
  void run_stream(StreamRef stream) {
    const ContextScope scope(stream.context());
    while (simulator.run_next(stream.native())) continue;
  }

  struct NothingLeft {
    const sim::Simulator& simulator;
    ~NothingLeft() {
      for (const std::string& left : simulator.live_list()) FAIL_CHECK("left alive: ", left);
    }
  };

  Reports reports;
  WorkLog log;
  sim::Simulator simulator;
  NothingLeft nothing_left{simulator};
  DriverTap tap;
  Driver driver{tap.source(), reports.sink()};
  Nvml nvml{tap.source()};
  DeviceRegistry registry{driver, nvml};
  DeviceContext& context = registry.context(Device::cuda(0));
  EventPool events{context};
};

}  // namespace berth::test
