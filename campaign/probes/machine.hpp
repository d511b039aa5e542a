// SPDX-License-Identifier: Apache-2.0
// The driver and the device that a program of the campaign measures, without berth in between.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "driver/driver.hpp"

namespace berth::campaign {

/// The driver that BERTH_DRIVER names, the real one if unset, and the primary context of its first
/// device, which is current in the thread that makes it.
class Machine {
 public:
  struct Unusable {
    std::string problem;
  };
  /// Errors  Unusable: nothing can be measured here.
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] const Driver& driver() const { return *driver_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  /// Makes the context current in the calling thread.
  void enter_thread() const { driver().ctx_set_current(context_); }

  /// A function of the driver that berth does not use; null if the driver lacks it.
  template <class Function>
  [[nodiscard]] Function* find(const char* symbol, int version) const {
    return reinterpret_cast<Function*>(driver().find(symbol, version));
  }
  /// Null if the driver does not know it.
  [[nodiscard]] const char* name_of(CUresult result) const;
  /// 0 if the driver does not know it.
  [[nodiscard]] int attribute(CUdevice_attribute which) const;
  [[nodiscard]] std::size_t bytes_free() const;
  /// The properties for cuMemCreate on the device, and the access for the device to read and write.
  [[nodiscard]] CUmemAllocationProp physical_memory() const;
  [[nodiscard]] CUmemAccessDesc access() const;

 private:
  const std::unique_ptr<Driver> driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

/// Returns the exit status of the program: 77 without a machine, with the reason why the program is
/// skipped; 1 after a failure.
int run_on_machine(const std::function<void(const Machine&)>& measure);

}  // namespace berth::campaign
