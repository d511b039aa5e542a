// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver_choice.hpp"

#include "berth/error.hpp"

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "driver/sim_abi.hpp"

namespace berth {
namespace {

constexpr const char* kCudaLibrary = "libcuda.so.1";
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

OpenedDriver open_cuda(const ReportSink& sink) {
  return {std::make_unique<Driver>(open_driver_library("cuda", kCudaLibrary), sink),
          std::make_unique<Nvml>(open_nvml_library(kNvmlLibrary))};
}

/// The reason why BERTH_SIM was rejected; empty if it was not, or if there is no simulated driver.
std::string configuration_error(const DriverSource& simulator) {
  if (!simulator.resolve) return {};
  const auto function = reinterpret_cast<sim_abi::ConfigurationError*>(
      simulator.resolve("berthSimConfigurationError", 0));
  return function == nullptr ? "" : function();
}

OpenedDriver open_simulator(const DriverSource& source, const ReportSink& sink) {
  static_cast<void>(configuration_error(source));  // so that cuInit does not print it
  auto driver = std::make_unique<Driver>(source, sink);
  const std::string problem = configuration_error(source);
  if (!driver->usable() && !problem.empty()) throw InvalidArgument(problem);
  return {std::move(driver), std::make_unique<Nvml>(source)};
}

/// The NVML of a look-alike is in the same folder.
OpenedDriver open_path(const std::string& path, const ReportSink& sink) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  DriverSource nvml = open_nvml_library(folder + kNvmlLibrary);
  if (!nvml.resolve) nvml = open_nvml_library(kNvmlLibrary);
  return {std::make_unique<Driver>(open_driver_library(path, path), sink),
          std::make_unique<Nvml>(std::move(nvml))};
}

bool has_device(const Driver& driver) {
  return !driver.devices().empty();
}

}  // namespace

bool names_driver(std::string_view text) {
  return text == "cuda" || text == "sim" || text == "auto" || text.find('/') != text.npos;
}

OpenedDriver open_driver(const std::string& text, const ReportSink& sink) {
  const std::string choice = !text.empty() ? text : trusted_env("BERTH_DRIVER").value_or("");
  if (choice.empty() || choice == "cuda") return open_cuda(sink);
  if (choice == "sim") return open_simulator(open_simulator_library(), sink);
  if (choice == "auto") {
    OpenedDriver cuda = open_cuda(sink);
    if (has_device(*cuda.driver)) return cuda;
    const DriverSource simulator = open_simulator_library();
    return simulator.resolve ? open_simulator(simulator, sink) : std::move(cuda);
  }
  if (names_driver(choice)) return open_path(choice, sink);
  throw InvalidArgument(format_text("{} {} is not a driver; accepted: {}",
                                    text.empty() ? "BERTH_DRIVER" : "driver", quoted(choice),
                                    kAcceptedDrivers));
}

}  // namespace berth
