// SPDX-License-Identifier: Apache-2.0
#include "stream/wait.hpp"

#include "device/device_context.hpp"

namespace berth {
namespace {

/// What is left to wait for is the device.
const Driver& driver_after_share(StreamRef stream) noexcept {
  stream.context().host_shares().do_all(stream);
  return stream.context().driver();
}
const Driver& driver_after_share(DeviceContext& context) noexcept {
  context.host_shares().do_all(context);
  return context.driver();
}
/// Which copies an event marks is not known.
const Driver& driver_after_share(EventRef event) noexcept {
  return driver_after_share(event.context());
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

}  // namespace berth
