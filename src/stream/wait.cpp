// SPDX-License-Identifier: Apache-2.0
#include "stream/wait.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

/// Calls `wait` in the capture mode `relaxed`, and returns its result.
template <class Wait>
auto relaxed(const Driver& driver, const Wait& wait) {
  const RelaxedCapture mode(driver);
  return wait(driver);
}

}  // namespace

void wait_for(StreamRef stream) {
  make_host_progress(stream);
  relaxed(stream.context().driver(),
          [&](const Driver& driver) { return driver.stream_synchronize(stream.native()); });
}

void wait_for(EventRef event) {
  make_host_progress(event.context());
  block_for(event);
}
CUresult try_wait_for(EventRef event) noexcept {
  make_host_progress(event.context());
  return relaxed(event.context().driver(), [&](const Driver& driver) {
    return driver.try_event_synchronize(event.native());
  });
}
void block_for(EventRef event) {
  relaxed(event.context().driver(),
          [&](const Driver& driver) { return driver.event_synchronize(event.native()); });
}

void wait_for(DeviceContext& context) {
  make_host_progress(context);
  relaxed(context.driver(), [](const Driver& driver) { return driver.ctx_synchronize(); });
}
CUresult try_wait_for(DeviceContext& context) noexcept {
  make_host_progress(context);
  return relaxed(context.driver(),
                 [](const Driver& driver) { return driver.try_ctx_synchronize(); });
}
void wait_for_or_report(DeviceContext& context) noexcept {
  make_host_progress(context);
  relaxed(context.driver(),
          [](const Driver& driver) { return driver.ctx_synchronize_or_report(); });
}

void wait_in_caller_mode(StreamRef stream) {
  make_host_progress(stream);
  stream.context().driver().stream_synchronize(stream.native());
}
void wait_in_caller_mode(EventRef event) {
  make_host_progress(event.context());  // the copies that precede an event are not known
  event.context().driver().event_synchronize(event.native());
}

void make_host_progress(StreamRef stream) noexcept {
  DeviceContext& context = stream.context();
  context.host_progress().call_each(
      [&](HostProgress& progress) { progress.make_progress(context, stream.native()); });
}
void make_host_progress(DeviceContext& context) noexcept {
  context.host_progress().call_each(
      [&](HostProgress& progress) { progress.make_progress(context); });
}
void make_host_progress(const DeviceRegistry& registry) noexcept {
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal)
    make_host_progress(registry.context(Device::cuda(ordinal)));
}

}  // namespace berth
