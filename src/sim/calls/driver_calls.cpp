// SPDX-License-Identifier: Apache-2.0
// Initialization, version and error names.
// Source: CUDA Driver API, "Initialization", "Version Management", "Error Handling".
#include <cstdint>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "sim/call.hpp"
#include "sim/check/process_exit.hpp"
#include "sim/device/enumeration.hpp"
#include "sim/error_names.hpp"
#include "sim/fork.hpp"

namespace berth::sim {

CUresult berth_sim_cuInit(unsigned flags) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (this_thread().in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  MutexLock lock(mutex);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  State* state = installed_or_from_environment();
  if (state == nullptr) {
    print_configuration_error();
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (state->order.on()) state->order.hosts().enter_thread();
  ++state->calls[static_cast<std::size_t>(Function::k_cuInit)];
  const CUresult fault = inject_fault(*state, {Function::k_cuInit, state->calls_made});
  if (fault != CUDA_SUCCESS || state->initialized) return fault;
  std::vector<int> visible = enumerate_devices(*state);
  if (visible.empty()) return CUDA_ERROR_NO_DEVICE;
  state->visible = std::move(visible);
  state->initialized = true;
  watch_python_exit();
  state->process = getpid();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = simulated_driver_version();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* known = find_error_name(error);
  *text = known == nullptr ? nullptr : known->name;
  return known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult berth_sim_cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* known = find_error_name(error);
  *text = known == nullptr ? nullptr : known->description;
  return known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Source: CUDA Programming Guide, "Lazy Loading": lazy unless the environment selects eager
// loading.
CUresult berth_sim_cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  Call call(Function::k_cuModuleGetLoadingMode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool is_eager = env("CUDA_MODULE_LOADING").value_or("") == "EAGER";
  *mode = is_eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

const char* berth_sim_berthSimConfigurationError() {
  static thread_local std::unique_ptr<std::string> text;
  text = std::make_unique<std::string>(configuration_error());
  return text->c_str();
}

// The tables that the UUIDs identify are undocumented; only NVIDIA's own libraries use them.
CUresult berth_sim_cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Dl_info asking{};
  const bool is_known = dladdr(__builtin_return_address(0), &asking) != 0;
  MutexLock lock(mutex);
  if (State* const state = installed_or_from_environment())
    state->findings.note_private_table(is_known ? asking.dli_fname : "");
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace berth::sim

const char* berth_sim_check_configuration(const char* text) noexcept {
  // Behind a pointer, because it counts against the static TLS block.
  static thread_local std::unique_ptr<std::string> kept;
  if (kept == nullptr) kept = std::make_unique<std::string>();
  std::string& reason = *kept;
  reason.clear();
  try {
    const berth::sim::Config config = berth::sim::Config::parse(text);
    const berth::sim::EventLog log(config.log, [] { return std::uint64_t{0}; });
  } catch (const std::exception& rejected) {
    reason = rejected.what();
  }
  return reason.c_str();
}
