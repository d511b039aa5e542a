// SPDX-License-Identifier: Apache-2.0
// The optional seam to NVML, which sees the physical devices that CUDA_VISIBLE_DEVICES hides from
// CUDA. Immutable after construction; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/driver_source.hpp"
#include "driver/nvml_abi.hpp"

namespace berth {

class Nvml {
 public:
  struct Device {
    std::string uuid;        ///< "GPU-" and 8-4-4-4-12 hexadecimal digits
    std::string pci_bus_id;  ///< "00000000:1A:00.0"
    std::string name;
    std::uint64_t memory_bytes;
  };

  /// Never throws for a missing or failing NVML: usable() is false then.
  explicit Nvml(DriverSource source);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool usable() const { return problem_.empty(); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Every physical device, in PCI order. One that NVML cannot describe (fallen off the bus) is
  /// left out. Empty where not usable().
  [[nodiscard]] std::vector<Device> devices() const;

 private:
  struct Table {
#define BERTH_MEMBER(member, symbol, type) nvml::type* member = nullptr;
    BERTH_NVML_FUNCTIONS(BERTH_MEMBER)
#undef BERTH_MEMBER
  };

  DriverSource source_;
  Table table_;
  std::string problem_;
};

}  // namespace berth
