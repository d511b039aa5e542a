// SPDX-License-Identifier: Apache-2.0
#include "stream/wait.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

/// What `wait` returns, in the capture mode `relaxed`.
template <class Wait>
auto relaxed(const Driver& driver, const Wait& wait) {
  const RelaxedCapture mode(driver);
  return wait(driver);
}

}  // namespace

void wait_for(StreamRef stream) {
  do_share_before_call(stream);
  relaxed(stream.context().driver(),
          [&](const Driver& driver) { return driver.stream_synchronize(stream.native()); });
}
void wait_for_or_report(StreamRef stream) noexcept {
  do_share_before_call(stream);
  relaxed(stream.context().driver(), [&](const Driver& driver) {
    return driver.stream_synchronize_or_report(stream.native());
  });
}

void wait_for(EventRef event) {
  do_share_before_call(event.context());
  block_for(event);
}
CUresult try_wait_for(EventRef event) noexcept {
  do_share_before_call(event.context());
  return relaxed(event.context().driver(), [&](const Driver& driver) {
    return driver.try_event_synchronize(event.native());
  });
}
void block_for(EventRef event) {
  relaxed(event.context().driver(),
          [&](const Driver& driver) { return driver.event_synchronize(event.native()); });
}

void wait_for(DeviceContext& context) {
  do_share_before_call(context);
  relaxed(context.driver(), [](const Driver& driver) { return driver.ctx_synchronize(); });
}
CUresult try_wait_for(DeviceContext& context) noexcept {
  do_share_before_call(context);
  return relaxed(context.driver(),
                 [](const Driver& driver) { return driver.try_ctx_synchronize(); });
}
void wait_for_or_report(DeviceContext& context) noexcept {
  do_share_before_call(context);
  relaxed(context.driver(),
          [](const Driver& driver) { return driver.ctx_synchronize_or_report(); });
}

void wait_in_mode_of_thread(StreamRef stream) {
  do_share_before_call(stream);
  stream.context().driver().stream_synchronize(stream.native());
}
void wait_in_mode_of_thread(EventRef event) {
  do_share_before_call(event.context());  // it is not known which copies an event marks
  event.context().driver().event_synchronize(event.native());
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
