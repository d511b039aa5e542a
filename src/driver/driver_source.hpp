// SPDX-License-Identifier: Apache-2.0
// The source of driver entry points: the driver's shared library, or that of the simulated driver.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace berth {

struct DriverSource {
  std::string name;  ///< "cuda", "sim", or the path as given
  /// Address of a function by NVIDIA's name, at the ABI of a CUDA version (12020 is 12.2); null if
  /// there is none. Empty if the source could not be opened; `problem` has the reason.
  std::function<void*(const char* symbol, int version)> resolve;
  std::string problem;
  std::shared_ptr<void> library;  ///< keeps the code of the functions loaded
};

/// Opens a driver library by dlopen. Never throws; `problem` has the reason of a failure. `path` is
/// a file name for the loader ("libcuda.so.1") or a path to a look-alike.
DriverSource open_driver_library(const std::string& name, const std::string& path);

/// Opens libberth_sim, which also simulates NVML; `version` is ignored. Prefers the library that
/// the program contains or has linked; otherwise the file beside the library or program that
/// contains this code; otherwise the file on the loader's search path. Never throws: if there is
/// none, `problem` names the library and every searched place.
DriverSource open_simulator_library();

/// The same for NVML, whose functions dlsym finds by their full names; `version` is ignored.
DriverSource open_nvml_library(const std::string& path);

}  // namespace berth
