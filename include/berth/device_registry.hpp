// SPDX-License-Identifier: Apache-2.0
// Which devices there are, and which of them "cuda:1" means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/device.hpp"
#include "berth/export.h"

namespace berth {

class DeviceContext;
class Driver;
class Nvml;

/// One physical device, whether CUDA_VISIBLE_DEVICES shows it or not.
struct DeviceInfo {
  int physical;                ///< position in PCI order, from 0
  std::optional<int> logical;  ///< N of `cuda:N`; nullopt where the device is hidden
  std::string uuid;            ///< "GPU-" and 8-4-4-4-12 hexadecimal digits
  std::string pci_bus_id;      ///< domain:bus:device.function, "00000000:1A:00.0"
  std::string name;            ///< as the driver says it
  std::uint64_t memory_bytes;  ///< total memory of the device

  [[nodiscard]] bool visible() const noexcept { return logical.has_value(); }
};

struct MemoryInfo {
  std::uint64_t bytes_free;   ///< as the driver sees it now, other processes' use deducted
  std::uint64_t bytes_total;  ///< all memory of the device; of the machine for `cpu`
};

/// The devices of one driver. Physical devices come from NVML, or from CUDA alone where there is no
/// NVML (hidden devices are unknown then); the two are joined by UUID, never by position. Read
/// once, at construction: CUDA reads CUDA_VISIBLE_DEVICES once too.
///
/// A malformed CUDA_VISIBLE_DEVICES never throws: as in CUDA, the devices before the first invalid
/// entry are visible. visibility_problem() says what is wrong with it, so does every error about a
/// device that is missing for that reason, and so does a warning to the report sink.
///
/// Blocking  Looking creates no context. A device's primary context is retained by its first use.
/// Threads   Safe from any thread. The current device is each thread's own.
class BERTH_API DeviceRegistry {
 public:
  DeviceRegistry(const Driver& driver, const Nvml& nvml);
  ~DeviceRegistry();
  DeviceRegistry(const DeviceRegistry&) = delete;
  DeviceRegistry& operator=(const DeviceRegistry&) = delete;

  /// Number of visible CUDA devices; 0 where there is no usable driver.
  [[nodiscard]] int count() const noexcept;
  [[nodiscard]] bool is_available() const noexcept { return count() > 0; }

  /// Every physical device that is known, in PCI order.
  [[nodiscard]] const std::vector<DeviceInfo>& physical_devices() const noexcept;
  /// One line on what is wrong with CUDA_VISIBLE_DEVICES; empty where nothing is.
  [[nodiscard]] const std::string& visibility_problem() const noexcept;

  /// The same device with its ordinal filled in (`cuda` becomes the thread's current device).
  /// Errors  InvalidArgument: no such device; the message says which there are.
  [[nodiscard]] Device resolve(Device device) const;

  /// The device of the calling thread's current CUDA context; cuda:0 where the thread has none.
  /// Errors  InvalidArgument: there are no CUDA devices.
  [[nodiscard]] Device current() const;
  /// Makes the device's primary context current on the calling thread.
  /// Errors  InvalidArgument: no such device, or `cpu`.
  void set_current(Device device) const;

  /// Errors  InvalidArgument: no such device.
  [[nodiscard]] MemoryInfo memory_info(Device device) const;

  /// berth's own handle on a CUDA device. For the other parts of berth.
  [[nodiscard]] DeviceContext& context(Device device) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Makes a device current on the calling thread, and restores what was current before.
/// Errors   As DeviceRegistry::set_current. The destructor never throws.
/// Threads  Belongs to the thread that made it; guards nest like scopes.
class BERTH_API DeviceGuard {
 public:
  DeviceGuard(const DeviceRegistry& registry, Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  DeviceContext* context_;
};

}  // namespace berth
