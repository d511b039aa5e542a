// SPDX-License-Identifier: Apache-2.0
// Interprocess events.
// Source: CUDA Driver API, cuIpcGetEventHandle, cuIpcOpenEventHandle.
#include <cstring>

#include "berth/event.hpp"

#include "base/format.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

static_assert(sizeof(CUipcEventHandle) == sizeof(IpcEventHandle));

void require_ipc(const Driver& driver, DriverCall call) {
  if (driver.has(call)) return;
  throw NotSupported(format_text(
      "the driver \"{}\" has no interprocess events; accepted: NVIDIA's driver on Linux",
      driver.name()));
}

}  // namespace

IpcEventHandle EventRef::ipc_handle() const {
  const Driver& driver = context_->driver();
  require_ipc(driver, DriverCall::ipc_get_event_handle);
  const ContextScope scope(*context_);
  CUipcEventHandle native{};
  const CUresult result = driver.try_ipc_get_event_handle(&native, native_);
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE) {
    throw InvalidArgument(format_text(
        "an event of {} cannot be opened by other processes: {}; accepted: an event made with "
        "EventOptions::interprocess",
        device().to_string(), driver.describe(result)));
  }
  if (result != CUDA_SUCCESS) driver.raise(DriverCall::ipc_get_event_handle, result);
  IpcEventHandle handle;
  std::memcpy(handle.bytes.data(), &native, sizeof native);
  return handle;
}

Event Event::open(DeviceContext& context, const IpcEventHandle& handle) {
  const Driver& driver = context.driver();
  require_ipc(driver, DriverCall::ipc_open_event_handle);
  const ContextScope scope(context);
  CUipcEventHandle native{};
  std::memcpy(&native, handle.bytes.data(), sizeof native);
  CUevent event = nullptr;
  driver.ipc_open_event_handle(&event, native);
  context.captured_events().erase(event);  // a destroyed event of the same handle
  return adopt(EventRef(context, event));
}

}  // namespace berth
