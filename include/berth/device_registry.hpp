// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which of them "cuda:1" means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/device.hpp"
#include "berth/device_facts.hpp"
#include "berth/export.h"

namespace berth {

class DeviceContext;
class Driver;
class Nvml;

/// Which instance of its device a MIG instance is, as nvidia-smi numbers them; -1: unknown.
struct MigInstanceIds {
  int gpu_instance = -1;
  int compute_instance = -1;
};

/// One physical device, or one MIG instance of it, whether CUDA_VISIBLE_DEVICES shows it or not.
/// Text is empty where nobody tells it.
struct DeviceInfo {
  int physical = 0;            ///< position in PCI order, from 0; of an instance, its device's
  std::optional<int> logical;  ///< N of `cuda:N`; nullopt where it is hidden
  std::string uuid;        ///< "GPU-", "MIG-" for an instance, and 8-4-4-4-12 hexadecimal digits
  std::string pci_bus_id;  ///< domain:bus:device.function, "00000000:1A:00.0"
  std::string name;        ///< as the driver says it
  std::uint64_t memory_bytes = 0;  ///< total memory, an instance's its own; 0: unknown
  /// Split by MIG: not usable as a whole, and shown as its instances. False where nobody tells.
  bool mig_mode = false;
  bool lost = false;  ///< NVML says that it does not answer any more
  std::optional<MigInstanceIds> mig_instance = std::nullopt;  ///< where it is an instance

  [[nodiscard]] bool visible() const noexcept { return logical.has_value(); }
};

/// Why a device, or an instance, is visible or not.
struct DeviceExplanation {
  std::optional<int> logical;  ///< N of `cuda:N`; nullopt where it is hidden
  int physical = 0;            ///< DeviceInfo::physical
  std::string name;
  std::string uuid;
  std::string pci_bus_id;
  std::string sentence;  ///< one plain sentence, one line
};

struct MemoryInfo {
  std::uint64_t bytes_free;   ///< as the driver sees it now, other processes' use deducted
  std::uint64_t bytes_total;  ///< all memory of the device; of the machine for `cpu`
};

/// The devices of one driver. Physical devices come from NVML; where that is missing, from the
/// kernel driver's folder /proc/driver/nvidia/gpus; else from CUDA alone, and hidden devices are
/// unknown then. CUDA's own are found among them by UUID and PCI address, never by position. Which
/// devices are visible, and as what, is what the driver says. Read once, at construction: CUDA
/// reads CUDA_VISIBLE_DEVICES once too.
///
/// A malformed CUDA_VISIBLE_DEVICES never throws: as in CUDA, the devices before the first invalid
/// entry are visible. visibility_problem() says what is wrong with it, so does every error about a
/// device that is missing for that reason, and so does a warning to the report sink.
///
/// Blocking  Looking creates no context. A device's primary context is retained by its first use.
/// Threads   Safe from any thread. The current device is each thread's own. visibility_problem(),
///           explain() and errors about missing devices read the environment, which no thread may
///           change meanwhile.
/// Forks     CUDA does not work in a forked child. There, what is known stays readable, and what
///           needs the driver throws NotSupported. A child whose parent had no registry makes its
///           own.
class BERTH_API DeviceRegistry {
 public:
  /// `driver` and `nvml` outlive the registry. `proc_devices`: the folder of the kernel driver.
  /// `device_files`: that of its device files, which are not opened.
  DeviceRegistry(const Driver& driver, const Nvml& nvml,
                 const std::string& proc_devices = "/proc/driver/nvidia/gpus",
                 const std::string& device_files = "/dev");
  ~DeviceRegistry();
  DeviceRegistry(const DeviceRegistry&) = delete;
  DeviceRegistry& operator=(const DeviceRegistry&) = delete;

  /// Number of visible CUDA devices; 0 where there is no usable driver.
  [[nodiscard]] int count() const noexcept;
  [[nodiscard]] bool is_available() const noexcept { return count() > 0; }

  /// Every physical device that is known, in PCI order. One that is split is visible as its
  /// instances only.
  [[nodiscard]] const std::vector<DeviceInfo>& physical_devices() const noexcept;
  /// Every MIG instance that is known, in the order of their devices.
  [[nodiscard]] const std::vector<DeviceInfo>& mig_instances() const noexcept;
  /// What `cuda:N` is: one of the two above.
  /// Errors  InvalidArgument: no such device, or `cpu`.
  [[nodiscard]] const DeviceInfo& info(Device device) const;

  /// One line on what is wrong with CUDA_VISIBLE_DEVICES; empty where nothing is. Among it: that it
  /// has changed since the registry was made, which has no effect. The text stays valid.
  [[nodiscard]] const std::string& visibility_problem() const;
  /// CUDA_VISIBLE_DEVICES as CUDA has read it; nullopt where it was not set.
  [[nodiscard]] const std::optional<std::string>& visible_devices() const noexcept;
  /// One line on why NVML tells nothing; empty where it works.
  [[nodiscard]] const std::string& nvml_problem() const noexcept;
  /// Each physical device, and behind it each of its instances.
  [[nodiscard]] std::vector<DeviceExplanation> explain() const;

  /// The same device with its ordinal filled in (`cuda` becomes the thread's current device).
  /// Errors  InvalidArgument: no such device, or one of a type that berth does not manage; the
  ///         message says which there are.
  [[nodiscard]] Device resolve(Device device) const;

  /// The device of the calling thread's current CUDA context; cuda:0 where the thread has none.
  /// Errors  InvalidArgument: there are no CUDA devices.
  [[nodiscard]] Device current() const;
  /// Makes the device's primary context current on the calling thread; inside a DeviceGuard or a
  /// StreamGuard until that one ends.
  /// Errors  InvalidArgument: no such device, or `cpu`.
  void set_current(Device device) const;

  /// Read by the first call and kept, without a context.
  /// Errors  InvalidArgument: no such device, or `cpu`. What the driver refuses to tell is nullopt.
  [[nodiscard]] const DeviceFacts& facts(Device device) const;
  /// How `from` reaches `to`. Read by the first call for the pair and kept, without a context.
  /// Errors  As facts().
  [[nodiscard]] const PeerFacts& peer(Device from, Device to) const;

  /// Needs, and so makes, the device's primary context.
  /// Errors  InvalidArgument: no such device.
  [[nodiscard]] MemoryInfo memory_info(Device device) const;
  /// As NVML says it now, without a context; all nullopt where there is no NVML, or the device is
  /// lost.
  /// Errors  InvalidArgument: no such device, or `cpu`. NotSupported: in a forked child.
  [[nodiscard]] MemoryUse memory_use(Device device) const;

  /// Of how much of the last moment, a second at most, some kernel ran on the device, as NVML says
  /// it now, without a context; nullopt where it does not: of MIG instances, of lost devices.
  /// Errors  As memory_use().
  [[nodiscard]] std::optional<int> utilization_percent(Device device) const;

  /// berth's own handle on a CUDA device. For the other parts of berth.
  [[nodiscard]] DeviceContext& context(Device device) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth
