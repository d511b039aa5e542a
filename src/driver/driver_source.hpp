// SPDX-License-Identifier: Apache-2.0
// Where driver entry points come from: the driver's shared library, or that of the simulated
// driver.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace berth {

struct DriverSource {
  std::string name;  ///< "cuda", "sim", or the path as given
  /// Address of a function by NVIDIA's name, at the ABI of a CUDA version (12020 is 12.2); null
  /// if there is none. Empty if the source could not be opened: `problem` says why.
  std::function<void*(const char* symbol, int version)> resolve;
  std::string problem;
  std::shared_ptr<void> library;  ///< keeps the code behind the pointers loaded
};

/// Opens a driver library by dlopen. Never throws: what goes wrong stands in `problem`. `path` is a
/// file name for the loader ("libcuda.so.1") or a path to a look-alike.
DriverSource open_driver_library(const std::string& name, const std::string& path);

/// Opens libberth_sim, which plays NVML too: `version` is ignored. If the program contains it or
/// has linked it, that one; otherwise the file beside the library or program that contains this
/// code; otherwise the file that the loader's ordinary search finds. Never throws: if there is
/// none, `problem` names the library and every place that was tried.
DriverSource open_simulator_library();

/// The same for NVML, whose functions dlsym finds by their full names; `version` is ignored.
DriverSource open_nvml_library(const std::string& path);

}  // namespace berth
