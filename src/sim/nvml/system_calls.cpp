// SPDX-License-Identifier: Apache-2.0
// NVML itself: initialization, versions, names of errors and processes.
// Source: NVML API Reference Guide, "Initialization and Cleanup", "Error reporting", "System
// Queries".
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/format.hpp"
#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

/// The driver branch of each CUDA version. Source: CUDA Toolkit Release Notes.
struct Branch {
  int cuda_version;
  int branch;
};
constexpr Branch kBranches[] = {
    {11040, 470}, {11050, 495}, {11060, 510}, {11070, 515}, {11080, 520},
    {12000, 525}, {12010, 530}, {12020, 535}, {12030, 545}, {12040, 550},
    {12050, 555}, {12060, 560}, {12080, 570}, {12090, 575}, {13000, 580},
};

/// The newest known branch that is not newer than the version.
std::string driver_version_text(int cuda_version) {
  const auto* newer = std::find_if(std::begin(kBranches), std::end(kBranches),
                                   [&](Branch known) { return known.cuda_version > cuda_version; });
  return format_text("{}.00", std::prev(newer)->branch);
}

}  // namespace

nvml::Return berth_sim_nvmlInitWithFlags(unsigned flags) {
  if ((flags & ~(nvml::kInitNoGpus | nvml::kInitNoAttach)) != 0) return nvml::kInvalidArgument;
  MutexLock lock(mutex);
  State* state = installed_or_from_environment();
  if (state == nullptr) {
    print_configuration_error();
    return nvml::kDriverNotLoaded;
  }
  ++state->nvml_users;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlInit_v2() {
  return berth_sim_nvmlInitWithFlags(0);
}

nvml::Return berth_sim_nvmlShutdown() {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  --call.state().nvml_users;
  return nvml::kSuccess;
}

const char* berth_sim_nvmlErrorString(nvml::Return code) {
  switch (code) {
    case nvml::kSuccess:
      return "success";
    case nvml::kUninitialized:
      return "NVML was not initialized by nvmlInit";
    case nvml::kInvalidArgument:
      return "invalid argument";
    case nvml::kNotSupported:
      return "not supported";
    case nvml::kNotFound:
      return "not found";
    case nvml::kInsufficientSize:
      return "insufficient size";
    case nvml::kDriverNotLoaded:
      return "the driver is not loaded";
    case nvml::kGpuIsLost:
      return "the device is lost";
    case nvml::kArgumentVersionMismatch:
      return "the version in the argument is not supported";
    default:
      return "unknown error";
  }
}

nvml::Return berth_sim_nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  return write_text(version, bytes, driver_version_text(call.state().config.driver_version));
}

nvml::Return berth_sim_nvmlSystemGetNVMLVersion(char* version, unsigned bytes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const int cuda = call.state().config.driver_version;
  return write_text(version, bytes, format_text("{}.{}", cuda / 1000, driver_version_text(cuda)));
}

nvml::Return berth_sim_nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return nvml::kInvalidArgument;
  *version = simulated_driver_version();
  return nvml::kSuccess;
}

// The program's name as it was started, truncated to the buffer.
nvml::Return berth_sim_nvmlSystemGetProcessName(unsigned pid, char* name, unsigned bytes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (name == nullptr || bytes == 0) return nvml::kInvalidArgument;
  std::ifstream file(format_text("/proc/{}/cmdline", pid));
  std::string text;
  if (!file || !std::getline(file, text, '\0')) return nvml::kNotFound;
  return write_text(name, bytes, text.substr(0, bytes - 1));
}

}  // namespace berth::sim
