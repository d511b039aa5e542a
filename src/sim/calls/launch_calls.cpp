// SPDX-License-Identifier: Apache-2.0
// Kernel launches: refused, skipped, or executed by host functions, depending on the configuration.
// Source: CUDA Driver API, "Execution Control".
#include <span>
#include <utility>

#include "sim/call.hpp"
#include "sim/calls/kernel_nodes.hpp"
#include "sim/calls/launch_attributes.hpp"
#include "sim/fork.hpp"

namespace berth::sim {
namespace {

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

CUresult launch(Function name, const LaunchRequest& request) {
  Described described = describe_launch(request);
  Call call(name, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const DeviceFunction* const found = state.functions.find(to_handle(request.function));
  Stream* const stream = call.find_stream(request.config.hStream);
  if (found == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Source: CUDA Programming Guide, "Stream and Event Behavior".
  if (stream->context != call.context().handle) return CUDA_ERROR_INVALID_HANDLE;
  KernelWork work{};
  const CUresult accepted =
      make_kernel_work(state, call.context().device, request, *found, described, work);
  if (accepted != CUDA_SUCCESS) return accepted;
  const bool is_captured = stream->captured.capture != 0;
  const CUresult queued = call.enqueue(*stream, std::move(work));
  if (is_captured && queued == CUDA_SUCCESS) keep_captured_launch(state, *stream, request);
  return queued;
}

}  // namespace

CUresult berth_sim_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, CUstream stream,
                                  void** arguments, void** extra) {
  return launch(Function::k_cuLaunchKernel,
                {configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                               stream, {}),
                 function, arguments, extra});
}

CUresult berth_sim_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_bytes,
                                             CUstream stream, void** arguments) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch(Function::k_cuLaunchCooperativeKernel,
                {configuration({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                               stream, {&cooperative, 1}),
                 function, arguments, nullptr});
}

CUresult berth_sim_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                    void** arguments, void** extra) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_complete(config)) return CUDA_ERROR_INVALID_VALUE;
  return launch(Function::k_cuLaunchKernelEx, {*config, function, arguments, extra});
}

}  // namespace berth::sim
