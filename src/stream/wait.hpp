// SPDX-License-Identifier: Apache-2.0
// How berth waits for a device, inside of a ContextScope. Each function first does the host's share
// of what it waits for (device/host_shares.hpp), and then blocks in the driver, in the capture mode
// `relaxed`: while another thread captures, the driver could otherwise refuse the wait and break
// that capture. NVIDIA does not document which calls the mode `global` forbids to other threads,
// and the simulated driver assumes every wait. Source: CUDA Driver API,
// cuThreadExchangeStreamCaptureMode.
#pragma once

#include <cuda.h>

#include "berth/device_registry.hpp"
#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

// No lock of berth's is held during these, except that of a lane's submission after a copy that
// could neither be submitted nor be marked.

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

/// For callers that have done the host's share: blocks in the driver alone.
/// Errors  DriverError.
void block_for(EventRef event);

/// A wait that the program asks for by sync(): in the capture mode that the program has chosen for
/// the calling thread.
/// Errors  DriverError.
void wait_in_mode_of_thread(StreamRef stream);
void wait_in_mode_of_thread(EventRef event);

// Before a driver call that may wait for work although the caller does not ask for it. Locks of
// berth's may be held during those for devices.

/// Before a copy of pageable memory by the driver, which may wait for its stream.
void do_share_before_call(StreamRef stream) noexcept;
/// Before memory of the device is allocated, freed or unmapped, or peer access is enabled: such
/// calls may wait for all work of the device. Source: CUDA Programming Guide, "Implicit
/// Synchronization".
void do_share_before_call(DeviceContext& context) noexcept;
/// Before memory is pinned or unpinned: likewise, for all devices.
void do_share_before_call(const DeviceRegistry& registry) noexcept;

}  // namespace berth
