// SPDX-License-Identifier: Apache-2.0
// Every wait of berth's for a device, inside of a ContextScope. Each does the host's share of what it
// waits for first (device/host_shares.hpp), and blocks in the driver then. No lock of berth's is held.
#pragma once

#include <cuda.h>

#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

/// For all work of the stream.
/// Errors  DriverError.
void wait_for(StreamRef stream);
void wait_for_or_report(StreamRef stream) noexcept;

/// For what the event marks. Likewise.
void wait_for(EventRef event);
[[nodiscard]] CUresult try_wait_for(EventRef event) noexcept;

/// For all work of the device. Likewise.
void wait_for(DeviceContext& context);
[[nodiscard]] CUresult try_wait_for(DeviceContext& context) noexcept;
void wait_for_or_report(DeviceContext& context) noexcept;

}  // namespace berth
