// SPDX-License-Identifier: Apache-2.0
// The optional interface to NVML, which reports the physical devices that CUDA_VISIBLE_DEVICES
// hides from CUDA. Immutable after construction; safe from any thread. A value that NVML does not
// report is unknown, and never a failure, because a device may vanish at any time. In a forked
// child, all values are unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fork.hpp"
#include "driver/driver_source.hpp"
#include "driver/known_device.hpp"
#include "driver/nvml_abi.hpp"

namespace berth {

/// Threads  Safe from any thread.
class Nvml {
 public:
  /// Never throws for a missing or failing NVML: usable() is false then.
  explicit Nvml(DriverSource source);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool usable() const { return problem_.empty(); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Every physical device, with the instances of those that are split, in NVML's order. A device
  /// without UUID and address in NVML (fallen off the bus) is left out. Empty if not usable().
  [[nodiscard]] std::vector<KnownDevice> devices() const;

  struct Process {
    unsigned pid;
    std::optional<std::uint64_t> bytes;
  };
  // By UUID, "GPU-..." or "MIG-..."; nullopt if NVML does not report it.
  [[nodiscard]] std::optional<nvml::Memory> memory(const std::string& uuid) const;
  /// The processes with compute or graphics work, each once.
  [[nodiscard]] std::optional<std::vector<Process>> processes(const std::string& uuid) const;
  [[nodiscard]] std::optional<nvml::Utilization> utilization(const std::string& uuid) const;
  [[nodiscard]] std::optional<bool> has_nvlink(const std::string& from,
                                               const std::string& to) const;
  [[nodiscard]] std::optional<nvml::TopologyLevel> topology(const std::string& one,
                                                            const std::string& other) const;

 private:
  struct Table {
#define BERTH_MEMBER(member, symbol, type, need) nvml::type* member = nullptr;
    BERTH_NVML_FUNCTIONS(BERTH_MEMBER)
#undef BERTH_MEMBER
  };

  /// The text that a function reports for `device`; empty if it fails.
  template <class Function>
  static std::string text(Function* function, nvml::Device device);
  /// The value that a function reports; nullopt if it fails or is missing.
  template <class Value, class Function, class... Args>
  static std::optional<Value> ask(Function* function, Args... args);

  [[nodiscard]] std::optional<nvml::Device> find(const std::string& uuid) const;
  /// The result of `function`; nullopt if it fails.
  static std::optional<std::vector<nvml::ProcessInfo>> list(nvml::DeviceGetProcessesFn* function,
                                                            nvml::Device device);
  [[nodiscard]] KnownDevice describe(nvml::Device device) const;
  [[nodiscard]] std::vector<KnownInstance> instances_of(nvml::Device device) const;

  const ForkOrigin origin_;
  DriverSource source_;
  Table table_;
  std::string problem_;
};

}  // namespace berth
