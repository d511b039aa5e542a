// SPDX-License-Identifier: Apache-2.0
// Waits for a device, within a ContextScope. Each function first does the host work that the
// awaited work depends on (device/host_progress.hpp), and then blocks in the driver, in the capture
// mode `relaxed`. Otherwise, while another thread captures, the driver could reject the wait and
// invalidate that capture. NVIDIA does not document which calls the mode `global` forbids to other
// threads; the simulated driver assumes all waits. Source: CUDA Driver API,
// cuThreadExchangeStreamCaptureMode.
#pragma once

#include <cuda.h>

#include "berth/device_registry.hpp"
#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

// No lock of berth's is held during these, except that of a lane's submission after a copy that
// could neither be submitted nor be marked.

/// Waits for all work of the stream.
/// Errors  DriverError.
void wait_for(StreamRef stream);

/// Waits for the work before the event. Errors as above.
void wait_for(EventRef event);
[[nodiscard]] CUresult try_wait_for(EventRef event) noexcept;

/// Waits for all work of the device. Errors as above.
void wait_for(DeviceContext& context);
[[nodiscard]] CUresult try_wait_for(DeviceContext& context) noexcept;
void wait_for_or_report(DeviceContext& context) noexcept;

/// Blocks in the driver, without host work, for callers that have done it.
/// Errors  DriverError.
void block_for(EventRef event);

/// A wait that the program requests by sync(), in the capture mode that the program has chosen for
/// the calling thread.
/// Errors  DriverError.
void wait_in_caller_mode(StreamRef stream);
void wait_in_caller_mode(EventRef event);

// Called before a driver call that may wait for work implicitly. The overloads for devices may be
// called with locks of berth's held.

/// Before a copy of pageable memory by the driver, which may wait for the stream.
void make_host_progress(StreamRef stream) noexcept;
/// Before device memory is allocated, freed or unmapped, or peer access is enabled: such calls may
/// wait for all work of the device. Source: CUDA Programming Guide, "Implicit Synchronization".
void make_host_progress(DeviceContext& context) noexcept;
/// Before memory is pinned or unpinned: likewise, for all devices.
void make_host_progress(const DeviceRegistry& registry) noexcept;

}  // namespace berth
