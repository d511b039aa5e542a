// SPDX-License-Identifier: Apache-2.0
// Picks a `cuda:N` if the user has named none.
#pragma once

#include <cstdint>
#include <string_view>

#include "berth/device.hpp"
#include "berth/export.h"

namespace berth {

class DeviceRegistry;

/// The criterion for picking a device.
enum class DevicePreference : std::uint8_t {
  /// The device with the lowest use. The use is the greater of two percentages: the utilization
  /// (DeviceRegistry::utilization_percent(), 0 if NVML does not report it), and the share of memory
  /// that others hold. Of devices with equal use, the one with the fewest bytes held by others,
  /// then the lowest ordinal.
  least_used,
  /// The device with the most free bytes, then the lowest ordinal.
  most_free_memory,
  /// `cuda:N` with N = local_rank(). If CUDA_VISIBLE_DEVICES leaves a single device, that device
  /// for every rank, because a launcher that sets the variable for each process has already picked.
  local_rank,
};

/// Picks a visible device: a whole device, or a MIG instance.
///
/// Memory held by others is the used memory that NVML reports (DeviceMemoryUse::bytes_used), less
/// the memory that NVML lists for this process. In a container, in which NVML does not know this
/// process by its own id, it is all used memory.
///
/// Some devices are never picked: lost devices, devices whose compute mode is `prohibited`, and
/// devices whose memory NVML does not report. By use and by free memory, devices in the mode
/// `exclusive_process` on which NVML lists another process are not picked either. If a single
/// device is visible, it is picked without NVML.
///
/// A picked device is not reserved: processes that pick at the same time pick the same one.
///
/// Blocking  Creates no context. NVML takes up to milliseconds for each device.
/// Errors    InvalidArgument: there are no CUDA devices. By rank: the errors of local_rank(), no
///           rank is set, or the device does not exist. NotSupported: by use or free memory without
///           NVML, because the driver reports free memory only to a process with a context; or no
///           device may be picked, with the reason for each; or in a forked child.
/// Threads   Safe from any thread. By rank: reads the environment.
BERTH_API Device pick_device(const DeviceRegistry& devices, DevicePreference preference);

/// Finds the current `cuda:N` of a device from its UUID, as DeviceInfo::uuid and nvidia-smi write
/// it. The UUID names the same device after a restart, whatever the value of CUDA_VISIBLE_DEVICES
/// and whatever devices were added. As in that variable, the beginning of a UUID suffices if it is
/// unique among all devices and instances, including hidden ones, and an instance may also be
/// written as MIG-GPU-<uuid>/<GPU instance>/<compute instance>. Case matters.
///
/// Errors   InvalidArgument that lists the visible devices: the text is not a UUID, or matches no
///          device or several; or it matches a hidden device, with the reason; a device that MIG
///          has split, with its instances; or a lost device.
/// Threads  Safe from any thread. An error reads the environment.
BERTH_API Device find_device(const DeviceRegistry& devices, std::string_view uuid);

}  // namespace berth
