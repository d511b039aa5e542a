// SPDX-License-Identifier: Apache-2.0
// Interprocess events: what berth refuses itself, and how it handles the driver's codes. Two
// processes are in tests/sim/interprocess_event_test.cpp.
#include <string>

#include <doctest/doctest.h>

#include "berth/event.hpp"

#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace event_ipc_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

}  // namespace

TEST_CASE("an interprocess event works within the process") {
  Simulation simulation;
  const Stream stream = simulation.runtime->create_stream(kDevice);
  const Event event(stream.ref().context(), {.interprocess = true});
  event.ref().record(stream);
  event.ref().sync();
  CHECK(event.ref().is_done());
  message_of<InvalidArgument>([&] { return elapsed_ms(event, event); });
}

TEST_CASE("an interprocess event has no timing and is not pooled") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  DeviceContext& context = runtime.default_stream(kDevice).context();
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { const Event event(context, {.timing = true, .interprocess = true}); }),
                 "timing"));
  message_of<InvalidArgument>(
      [&] { return runtime.events(kDevice).acquire({.interprocess = true}); });
  CHECK(runtime.events(kDevice).events_created() == 0);
}

TEST_CASE("interprocess events are refused by name on a driver without them") {
  const sim::Simulator simulator{sim::Config()};
  DriverTap tap;
  tap.hide(DriverCall::ipc_get_event_handle);
  tap.hide(DriverCall::ipc_open_event_handle);
  const Driver driver(tap.source(), {});
  const Nvml nvml(tap.source());
  const DeviceRegistry registry(driver, nvml);
  DeviceContext& context = registry.context(kDevice);
  const Event event(context, {.interprocess = true});
  CHECK(contains(message_of<NotSupported>([&] { return event.ref().ipc_handle(); }), "sim"));
  message_of<NotSupported>([&] { return Event::open(context, {}); });
}

TEST_CASE("ipc_handle() of another event is refused with the option's name") {
  TappedDevice test;
  const Event event(test.context, {});
  for (const CUresult result : {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE}) {
    test.tap.refuse(DriverCall::ipc_get_event_handle, result);
    CHECK(contains(message_of<InvalidArgument>([&] { return event.ref().ipc_handle(); }),
                   "EventOptions::interprocess"));
  }
  test.tap.refuse(DriverCall::ipc_get_event_handle, CUDA_ERROR_OUT_OF_MEMORY);
  message_of<DriverError>([&] { return event.ref().ipc_handle(); });
}

TEST_CASE("the driver refuses a handle of no interprocess event") {
  TappedDevice test;
  test.tap.refuse(DriverCall::ipc_open_event_handle, CUDA_ERROR_INVALID_HANDLE);
  CHECK(contains(message_of<DriverError>([&] { return Event::open(test.context, {}); }),
                 "cuIpcOpenEventHandle"));
}

}  // namespace event_ipc_test
