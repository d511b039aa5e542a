// SPDX-License-Identifier: Apache-2.0
// Kernel launches: refused, skipped, or executed by host functions, depending on the configuration.
// Source: CUDA Driver API, "Execution Control".
#include <atomic>
#include <exception>
#include <memory>
#include <span>
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

bool is_within(const Call& call, unsigned value, CUdevice_attribute limit) {
  const State& state = call.state();
  const Device& device = state.devices[static_cast<std::size_t>(call.context().device)];
  const auto most = device_attribute(state.config, device.facts, limit);
  return most && value <= static_cast<unsigned>(*most);
}

bool is_configuration(const Call& call, const CUlaunchConfig& config,
                      const DeviceFunction& function) {
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0) return false;
  if (config.blockDimX == 0 || config.blockDimY == 0 || config.blockDimZ == 0) return false;
  // With each dimension within its limit, the product does not overflow.
  return is_within(call, config.blockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) &&
         is_within(call, config.blockDimY, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) &&
         is_within(call, config.blockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) &&
         is_within(call, config.blockDimX * config.blockDimY * config.blockDimZ,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) &&
         is_within(call, config.gridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) &&
         is_within(call, config.gridDimY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) &&
         is_within(call, config.gridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) &&
         config.sharedMemBytes <= static_cast<unsigned>(dynamic_shared_max(
                                      call.state(), call.context().device, function));
}

/// The launch as passed to a stand-in.
struct Described {
  CUresult refusal = CUDA_SUCCESS;
  Kernel kernel = {};
};

/// The name of the kernel if host functions replace kernels; null otherwise.
const char* name_for_stand_in(CUfunction function) {
  if (is_parents_driver()) return nullptr;
  MutexLock lock(mutex);
  State* const state = installed_state();
  if (state == nullptr || state->config.kernels != Kernels::host) return nullptr;
  const DeviceFunction* const found = state->functions.find(to_handle(function));
  return found == nullptr ? nullptr : found->name;
}

// Without the simulator's lock, because a stand-in in Python acquires the interpreter's lock.
Described describe(const CUlaunchConfig& config, CUfunction function, void** arguments) {
  const char* const name = name_for_stand_in(function);
  if (name == nullptr) return {};
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
                         .arguments = arguments})};
  } catch (const std::exception& refused) {
    tell(name, on_one_line(refused.what()));
    return {CUDA_ERROR_INVALID_VALUE};
  } catch (...) {
    tell(name, "its stand-in threw no std::exception");
    return {CUDA_ERROR_INVALID_VALUE};
  }
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

struct Extents {
  unsigned x;
  unsigned y;
  unsigned z;
};

/// `attributes` outlive the result.
CUlaunchConfig configuration(const Extents& grid, const Extents& block, unsigned shared_bytes,
                             CUstream stream, std::span<CUlaunchAttribute> attributes) {
  return {.gridDimX = grid.x,
          .gridDimY = grid.y,
          .gridDimZ = grid.z,
          .blockDimX = block.x,
          .blockDimY = block.y,
          .blockDimZ = block.z,
          .sharedMemBytes = shared_bytes,
          .hStream = stream,
          .attrs = attributes.data(),
          .numAttrs = static_cast<unsigned>(attributes.size())};
}

/// Whether all blocks of a valid launch can run at the same time.
bool fits_at_once(const Call& call, const CUlaunchConfig& config) {
  const auto threads = static_cast<int>(config.blockDimX * config.blockDimY * config.blockDimZ);
  const Occupancy occupancy(call.state(), call.context().device);
  return std::uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ <=
         occupancy.all_blocks(threads, config.sharedMemBytes);
}

CUresult launch(Function name, const CUlaunchConfig& config, CUfunction function, void** arguments,
                void** extra) {
  Described described;
  // A packed argument buffer cannot be split into arguments without the device code.
  if (extra == nullptr) described = describe(config, function, arguments);
  Call call(name, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const DeviceFunction* const found = state.functions.find(to_handle(function));
  Stream* const stream = call.find_stream(config.hStream);
  if (found == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Source: CUDA Programming Guide, "Stream and Event Behavior".
  if (stream->context != call.context().handle) return CUDA_ERROR_INVALID_HANDLE;
  if (extra != nullptr && arguments != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_configuration(call, config, *found)) return CUDA_ERROR_INVALID_VALUE;
  if (is_cooperative(config) && !fits_at_once(call, config))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  if (call.fault_of(*stream) != CUDA_SUCCESS) return call.fault_of(*stream);
  KernelWork work{.duration_ns = kHostFunctionNs, .uses = {}, .name = found->name};
  if (is_programmatic(config)) work.resident = Resident::with_previous;
  switch (state.config.kernels) {
    case Kernels::refuse:
      tell(found->name,
           "device code is not run, so the launch returns CUDA_ERROR_NOT_SUPPORTED; accepted: "
           "kernels=skip, with which results are garbage, or kernels=host, with which host "
           "functions stand in");
      return CUDA_ERROR_NOT_SUPPORTED;
    case Kernels::skip:  // counted when it runs, as each launch of a graph is
      break;
    case Kernels::host:
      if (extra != nullptr) {
        tell(found->name, "kernels=host, and its arguments are packed in a buffer (extra)");
        return CUDA_ERROR_NOT_SUPPORTED;
      }
      if (described.refusal != CUDA_SUCCESS) return described.refusal;
      work.duration_ns = described.kernel.duration_ns;
      work.uses = std::move(described.kernel.uses);
      work.compute = Computation(std::move(described.kernel.compute));
      break;
  }
  return call.enqueue(*stream, std::move(work));
}

}  // namespace

CUresult berth_sim_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, CUstream stream,
                                  void** arguments, void** extra) {
  return launch(Function::k_cuLaunchKernel,
                configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                              stream, {}),
                function, arguments, extra);
}

CUresult berth_sim_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_bytes,
                                             CUstream stream, void** arguments) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch(Function::k_cuLaunchCooperativeKernel,
                configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                              stream, {&cooperative, 1}),
                function, arguments, nullptr);
}

CUresult berth_sim_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                    void** arguments, void** extra) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_complete(config)) return CUDA_ERROR_INVALID_VALUE;
  return launch(Function::k_cuLaunchKernelEx, *config, function, arguments, extra);
}

}  // namespace berth::sim
