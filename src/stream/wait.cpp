// SPDX-License-Identifier: Apache-2.0
#include "stream/wait.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

/// The driver, which then has to wait for the device alone.
const Driver& driver_after_share(StreamRef stream) noexcept {
  do_share_before_call(stream);
  return stream.context().driver();
}
const Driver& driver_after_share(DeviceContext& context) noexcept {
  do_share_before_call(context);
  return context.driver();
}
/// It is not known which copies an event marks.
const Driver& driver_after_share(EventRef event) noexcept {
  return driver_after_share(event.context());
}

/// Calls `wait` in the capture mode `relaxed`.
template <class Wait>
void relaxed(const Driver& driver, const Wait& wait) {
  RelaxedCapture mode(driver);
  mode.begin();
  wait();
}

}  // namespace

void wait_for(StreamRef stream) {
  driver_after_share(stream).stream_synchronize(stream.native());
}
void wait_for_or_report(StreamRef stream) noexcept {
  driver_after_share(stream).stream_synchronize_or_report(stream.native());
}

void wait_for(EventRef event) {
  driver_after_share(event).event_synchronize(event.native());
}
CUresult try_wait_for(EventRef event) noexcept {
  return driver_after_share(event).try_event_synchronize(event.native());
}

void wait_for(DeviceContext& context) {
  driver_after_share(context).ctx_synchronize();
}
CUresult try_wait_for(DeviceContext& context) noexcept {
  return driver_after_share(context).try_ctx_synchronize();
}
void wait_for_or_report(DeviceContext& context) noexcept {
  driver_after_share(context).ctx_synchronize_or_report();
}

void wait_relaxed_for(StreamRef stream) {
  relaxed(stream.context().driver(), [&] { wait_for(stream); });
}
void wait_relaxed_for(EventRef event) {
  relaxed(event.context().driver(), [&] { wait_for(event); });
}
void block_relaxed_for(EventRef event) {
  const Driver& driver = event.context().driver();
  relaxed(driver, [&] { driver.event_synchronize(event.native()); });
}

void do_share_before_call(StreamRef stream) noexcept {
  stream.context().host_shares().do_all(stream.context(), stream.native());
}
void do_share_before_call(DeviceContext& context) noexcept {
  context.host_shares().do_all(context);
}
void do_share_before_call(const DeviceRegistry& registry) noexcept {
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal)
    do_share_before_call(registry.context(Device::cuda(ordinal)));
}

}  // namespace berth
