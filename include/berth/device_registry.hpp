// SPDX-License-Identifier: Apache-2.0
// The devices that exist, and the device that "cuda:1" names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/device.hpp"
#include "berth/device_backend.hpp"
#include "berth/device_facts.hpp"
#include "berth/export.h"

namespace berth {

class DeviceContext;
class Driver;
class Nvml;
struct RegisteredBackend;

/// The numbers of a MIG instance on its device, as nvidia-smi shows them; -1: unknown.
struct MigInstanceIds {
  int gpu_instance = -1;
  int compute_instance = -1;
};

/// One physical device, or one of its MIG instances, whether CUDA_VISIBLE_DEVICES shows it or not.
/// Unknown text is empty.
struct DeviceInfo {
  int physical = 0;            ///< position in PCI order, from 0; of an instance: its device's
  std::optional<int> logical;  ///< N of `cuda:N`; nullopt if it is hidden
  std::string uuid;        ///< "GPU-", or "MIG-" for an instance, and 8-4-4-4-12 hexadecimal digits
  std::string pci_bus_id;  ///< domain:bus:device.function, "00000000:1A:00.0"
  std::string name;        ///< as the driver reports it
  std::uint64_t memory_bytes = 0;  ///< total memory, for an instance its own; 0: unknown
  /// Split by MIG: not usable as a whole, and shown as its instances. False if unknown.
  bool mig_mode = false;
  bool lost = false;  ///< NVML reports that it no longer responds
  std::optional<MigInstanceIds> mig_instance = std::nullopt;  ///< set for an instance

  [[nodiscard]] bool visible() const noexcept { return logical.has_value(); }
};

/// Why a device, or an instance, is visible or not.
struct DeviceExplanation {
  std::optional<int> logical;  ///< N of `cuda:N` or of another type; nullopt if it is hidden
  int physical = 0;            ///< DeviceInfo::physical; of a backend the chip, -1 if unknown
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::string sentence;  ///< one plain sentence, one line
};

/// Free and total memory of a device, or of the machine for `cpu`.
struct MemoryInfo {
  std::uint64_t bytes_free;   ///< now, as the driver reports it; memory of other processes is not
  std::uint64_t bytes_total;  ///< total memory of the device, or of the machine for `cpu`
};

/// The devices of one driver, and those of backends of other types.
///
/// Physical devices come from NVML, or from the kernel driver's folder /proc/driver/nvidia/gpus if
/// NVML is missing. If both are missing, they come from CUDA alone, and hidden devices are unknown.
/// CUDA's devices are matched by UUID and PCI address, never by position. The driver decides which
/// devices are visible, and in which order. All of this is read once, at construction, because CUDA
/// also reads CUDA_VISIBLE_DEVICES once.
///
/// A malformed CUDA_VISIBLE_DEVICES never throws: as in CUDA, the devices before the first invalid
/// entry are visible. The problem is reported by visibility_problem(), by every error about a
/// device that is missing for this reason, and by a warning to the report sink.
///
/// Blocking  Queries create no context. A device's primary context is retained at the first use of
///           the device.
/// Threads   Safe from any thread. Each thread has its own current device. visibility_problem(),
///           explain() and errors about missing devices read the environment, which no thread may
///           change meanwhile.
/// Fork      CUDA does not work in a forked child. Known information stays readable there, and
///           functions that need the driver throw NotSupported. A child whose parent had no
///           registry may create its own.
class BERTH_API DeviceRegistry {
 public:
  /// `driver` and `nvml` must outlive the registry. `proc_devices`: the folder of the kernel
  /// driver. `device_files`: the folder of its device files, which are not opened.
  DeviceRegistry(const Driver& driver, const Nvml& nvml,
                 const std::string& proc_devices = "/proc/driver/nvidia/gpus",
                 const std::string& device_files = "/dev");
  ~DeviceRegistry();
  DeviceRegistry(const DeviceRegistry&) = delete;
  DeviceRegistry& operator=(const DeviceRegistry&) = delete;

  /// Number of visible CUDA devices; 0 without a usable driver.
  [[nodiscard]] int count() const noexcept;
  [[nodiscard]] bool is_available() const noexcept { return count() > 0; }

  // Devices of every type. A type without a backend has 0 devices.

  /// Number of devices of a type: 1 for `cpu`, count() for `cuda`.
  [[nodiscard]] int count(DeviceType type) const noexcept;
  [[nodiscard]] bool is_available(DeviceType type) const noexcept { return count(type) > 0; }
  /// `cpu`, `cuda`, and the types that have a backend, in the order of their numbers.
  [[nodiscard]] std::vector<DeviceType> types() const;
  /// Properties of a device of any type. Creates no context.
  /// Errors  InvalidArgument: no such device.
  [[nodiscard]] DeviceDescription describe(Device device) const;
  /// The memory of a device of a backend, as the backend reports it now. memory_info() serves all
  /// types.
  /// Errors  InvalidArgument: no such device, or one that has no backend. NotSupported: in a forked
  ///         child. Exceptions of the backend.
  [[nodiscard]] BackendMemory device_memory(Device device) const;
  /// DeviceBackend::name() of the backend of a type; empty without one.
  [[nodiscard]] std::string backend_name(DeviceType type) const;
  /// DeviceBackend::attributes() of the backend of a type; empty without one.
  [[nodiscard]] std::vector<DeviceAttribute> backend_attributes(DeviceType type) const;
  /// The reason why a type that RuntimeOptions::pjrt names has no backend, in one line; otherwise
  /// empty.
  [[nodiscard]] std::string backend_problem(DeviceType type) const;

  /// Gives a type a backend until the end of the registry. Programs call
  /// Runtime::register_backend().
  /// Errors  InvalidArgument: null; `cpu` or `cuda`; a type that has a backend; a count of devices
  ///         that is negative or above 65536. Exceptions of the backend. The backend is destroyed
  ///         then, and nothing has changed.
  void register_backend(DeviceType type, std::unique_ptr<DeviceBackend> backend);
  /// The checks of register_backend() that need no backend.
  /// Errors  InvalidArgument: `cpu` or `cuda`; a type that has a backend.
  void require_no_backend(DeviceType type) const;
  /// Sets the result of backend_problem() until the type has a backend. For Runtime.
  void note_backend_problem(DeviceType type, const std::string& problem);

  /// Every known physical device, in PCI order. A split device is visible only as its instances.
  [[nodiscard]] const std::vector<DeviceInfo>& physical_devices() const noexcept;
  /// Every known MIG instance, in the order of their devices.
  [[nodiscard]] const std::vector<DeviceInfo>& mig_instances() const noexcept;
  /// The physical device or MIG instance that `cuda:N` is.
  /// Errors  InvalidArgument: no such device, or `cpu`.
  [[nodiscard]] const DeviceInfo& info(Device device) const;

  /// The problem with CUDA_VISIBLE_DEVICES in one line; empty if there is none. A change of the
  /// variable since the registry was created, which has no effect, is also a problem. The text
  /// stays valid.
  [[nodiscard]] const std::string& visibility_problem() const;
  /// CUDA_VISIBLE_DEVICES as CUDA has read it; nullopt if it was not set.
  [[nodiscard]] const std::optional<std::string>& visible_devices() const noexcept;
  /// The reason why NVML is not available, in one line; empty if it works.
  [[nodiscard]] const std::string& nvml_problem() const noexcept;
  /// Each physical device, followed by its instances.
  [[nodiscard]] std::vector<DeviceExplanation> explain() const;
  /// Explains each device of a type, by ordinal, and then each known chip without a device.
  /// Only chips of TPUs are known: those on the PCI bus, and those that TPU_VISIBLE_CHIPS names,
  /// also if the machine does not have them. Empty for `cpu`, and for a type without a backend or a
  /// backend_problem(). explain() for `cuda`.
  [[nodiscard]] std::vector<DeviceExplanation> explain(DeviceType type) const;

  /// Returns the same device with its ordinal. `cuda` becomes the thread's current device; any
  /// other type alone is its device 0.
  /// Errors  InvalidArgument: no such device, or a device of a type that has no backend; the
  ///         message lists the existing devices.
  [[nodiscard]] Device resolve(Device device) const;

  /// The device of the calling thread's current CUDA context; cuda:0 if the thread has none.
  /// Errors  InvalidArgument: there are no CUDA devices.
  [[nodiscard]] Device current() const;
  /// Makes the device's primary context current on the calling thread. Inside a DeviceGuard or a
  /// StreamGuard, it stays current until the guard ends.
  /// Errors  InvalidArgument: no such device, or `cpu`. DriverError. Nothing is changed then.
  void set_current(Device device) const;

  /// Read by the first call and then kept. Creates no context.
  /// Errors  InvalidArgument: no such device, or `cpu`. Facts that the driver refuses are nullopt.
  [[nodiscard]] const DeviceFacts& facts(Device device) const;
  /// The access of `from` to `to`. Read by the first call for the pair and then kept. Creates no
  /// context.
  /// Errors  As facts().
  [[nodiscard]] const PeerFacts& peer(Device from, Device to) const;

  /// Free and total memory. For a CUDA device, creates its primary context if there is none. For a
  /// device of a backend, the limit, less what is in use.
  /// Errors  InvalidArgument: no such device. NotSupported: the backend does not report both, or in
  ///         a forked child. DriverError.
  [[nodiscard]] MemoryInfo memory_info(Device device) const;
  /// The current report of NVML. Creates no context. All nullopt without NVML, or if the device is
  /// lost.
  /// Errors  InvalidArgument: no such device, or `cpu`. NotSupported: in a forked child.
  [[nodiscard]] DeviceMemoryUse memory_use(Device device) const;

  /// The percentage of the last period, at most a second, in which a kernel ran on the device, as
  /// NVML reports it. Creates no context. nullopt if NVML does not report it, as for MIG instances
  /// and lost devices.
  /// Errors  As memory_use().
  [[nodiscard]] std::optional<int> utilization_percent(Device device) const;

  /// berth's own handle of a CUDA device. For the other parts of berth.
  /// Errors  InvalidArgument: no such device; `cpu`, or a device of a backend, none of which has
  ///         streams.
  [[nodiscard]] DeviceContext& context(Device device) const;
  /// The backend of a device, which has its ordinal. For the other parts of berth.
  /// Errors  InvalidArgument: no such device; `cpu`, or a CUDA device.
  [[nodiscard]] const RegisteredBackend& backend(Device device) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth
