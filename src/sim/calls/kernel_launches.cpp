// SPDX-License-Identifier: Apache-2.0
#include "sim/calls/kernel_launches.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/standard_error.hpp"
#include "sim/call.hpp"
#include "sim/calls/launch_attributes.hpp"
#include "sim/fork.hpp"
#include "sim/work/cost_model.hpp"
#include "sim/work/kernel_limits.hpp"
#include "sim/work/stand_ins.hpp"

namespace berth::sim {
namespace {

/// Printed once in a process, because programs launch the same kernels repeatedly.
void tell(std::string_view kernel, std::string_view reason) {
  static std::atomic<bool> told = false;
  if (told.exchange(true, std::memory_order_relaxed)) return;
  write_to_stderr(
      format_text("simulated driver: kernel {} was not launched: {}\n", kernel, reason));
}

bool is_within(const State& state, int slot, unsigned value, CUdevice_attribute limit) {
  const Device& device = state.devices[static_cast<std::size_t>(slot)];
  const auto most = device_attribute(state.config, device.facts, limit);
  return most && value <= static_cast<unsigned>(*most);
}

bool is_configuration(const State& state, int slot, const CUlaunchConfig& config,
                      const DeviceFunction& function) {
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0) return false;
  if (config.blockDimX == 0 || config.blockDimY == 0 || config.blockDimZ == 0) return false;
  // With each dimension within its limit, the product does not overflow.
  return is_within(state, slot, config.blockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
         is_within(state, slot, config.blockDimY, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
         is_within(state, slot, config.blockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) &&
         is_within(state, slot, config.blockDimX * config.blockDimY * config.blockDimZ,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) &&
         is_within(state, slot, config.gridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
         is_within(state, slot, config.gridDimY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
         is_within(state, slot, config.gridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) &&
         config.sharedMemBytes <= static_cast<unsigned>(dynamic_shared_max(state, slot, function));
}

bool is_programmatic(const CUlaunchConfig& config) {
  const CUlaunchAttribute* const found =
      find_attribute(config, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  return found != nullptr && found->value.programmaticStreamSerializationAllowed != 0;
}

bool is_cooperative(const CUlaunchConfig& config) {
  const CUlaunchAttribute* const found = find_attribute(config, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  return found != nullptr && found->value.cooperative != 0;
}

/// Whether all blocks of a valid launch can run at the same time.
bool fits_at_once(const State& state, int slot, const CUlaunchConfig& config) {
  const auto threads = static_cast<int>(config.blockDimX * config.blockDimY * config.blockDimZ);
  const Occupancy occupancy(state, slot);
  return std::uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ <=
         occupancy.all_blocks(threads, config.sharedMemBytes);
}

/// The name of the kernel if host functions replace kernels; null otherwise.
const char* name_for_stand_in(CUfunction function) {
  if (is_parents_driver()) return nullptr;
  MutexLock lock(mutex);
  State* const state = installed_state();
  if (state == nullptr || state->config.kernels != Kernels::host) return nullptr;
  const DeviceFunction* const found = state->functions.find(to_handle(function));
  return found == nullptr ? nullptr : found->name;
}

}  // namespace

Described describe_launch(const LaunchRequest& request) {
  // A packed buffer cannot be split into arguments without the device code.
  const char* const name = request.extra == nullptr ? name_for_stand_in(request.function) : nullptr;
  if (name == nullptr) return {};
  const CUlaunchConfig& config = request.config;
  const std::shared_ptr<const KernelStandIn> stand_in = find_stand_in(name);
  if (stand_in == nullptr) {
    tell(name,
         "kernels=host, and no host function stands in for it; the launch returns "
         "CUDA_ERROR_NOT_SUPPORTED");
    return {CUDA_ERROR_NOT_SUPPORTED};
  }
  try {
    return {CUDA_SUCCESS,
            (*stand_in)({.name = name,
                         .grid = {config.gridDimX, config.gridDimY, config.gridDimZ},
                         .block = {config.blockDimX, config.blockDimY, config.blockDimZ},
                         .shared_bytes = config.sharedMemBytes,
                         .arguments = request.arguments})};
  } catch (const std::exception& refused) {
    tell(name, on_one_line(refused.what()));
    return {CUDA_ERROR_INVALID_VALUE};
  } catch (...) {
    tell(name, "its stand-in threw no std::exception");
    return {CUDA_ERROR_INVALID_VALUE};
  }
}

CUresult make_kernel_work(const State& state, int slot, const LaunchRequest& request,
                          const DeviceFunction& function, Described& described, KernelWork& work) {
  const CUlaunchConfig& config = request.config;
  if (request.extra != nullptr && request.arguments != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_configuration(state, slot, config, function)) return CUDA_ERROR_INVALID_VALUE;
  if (is_cooperative(config) && !fits_at_once(state, slot, config))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  work = {.duration_ns = kHostFunctionNs, .uses = {}, .name = function.name};
  if (is_programmatic(config)) work.resident = Resident::with_previous;
  switch (state.config.kernels) {
    case Kernels::refuse:
      tell(function.name,
           "device code is not run, so the launch returns CUDA_ERROR_NOT_SUPPORTED; accepted: "
           "kernels=skip, with which results are garbage, or kernels=host, with which host "
           "functions stand in");
      return CUDA_ERROR_NOT_SUPPORTED;
    case Kernels::skip:  // counted when it runs, as each launch of a graph is
      break;
    case Kernels::host:
      if (request.extra != nullptr) {
        tell(function.name, "kernels=host, and its arguments are packed in a buffer (extra)");
        return CUDA_ERROR_NOT_SUPPORTED;
      }
      if (described.refusal != CUDA_SUCCESS) return described.refusal;
      work.duration_ns = described.kernel.duration_ns;
      work.uses = std::move(described.kernel.uses);
      work.compute = Computation(std::move(described.kernel.compute));
      break;
  }
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
