// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <utility>

#include "sim/call.hpp"
#include "sim/calls/kernel_nodes.hpp"
#include "sim/calls/launch_attributes.hpp"
#include "sim/fork.hpp"

namespace berth::sim {
namespace {

CUfunction function_in(const CUDA_KERNEL_NODE_PARAMS& params) {
  return params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
}

CUlaunchConfig configuration_in(const CUDA_KERNEL_NODE_PARAMS& params) {
  CUlaunchConfig config{};
  config.gridDimX = params.gridDimX;
  config.gridDimY = params.gridDimY;
  config.gridDimZ = params.gridDimZ;
  config.blockDimX = params.blockDimX;
  config.blockDimY = params.blockDimY;
  config.blockDimZ = params.blockDimZ;
  config.sharedMemBytes = params.sharedMemBytes;
  return config;
}

/// Copies the arguments, whose sizes are those of the parameters in PTX.
void copy_arguments(State& state, const DeviceFunction& function, KernelNodeParams& kept) {
  const Module* const owner = state.modules.find(function.module);
  const PtxKernel* const kernel = owner == nullptr ? nullptr : owner->find(function.name);
  if (kernel == nullptr || kept.given.kernelParams == nullptr) return;
  std::size_t bytes = 0;
  for (const KernelParameter& parameter : kernel->parameters)
    bytes = parameter.offset + parameter.bytes;
  kept.values.resize(bytes);
  for (std::size_t i = 0; i < kernel->parameters.size(); ++i) {
    const KernelParameter& parameter = kernel->parameters[i];
    std::byte* const place = kept.values.data() + parameter.offset;
    std::memcpy(place, kept.given.kernelParams[i], parameter.bytes);
    kept.arguments.push_back(place);
  }
}

std::shared_ptr<const KernelNodeParams> keep(State& state, const DeviceFunction& function,
                                             const CUDA_KERNEL_NODE_PARAMS& params,
                                             Handle context) {
  auto kept = std::make_shared<KernelNodeParams>();
  kept->given = params;
  kept->given.ctx = from_handle<CUcontext>(context);
  copy_arguments(state, function, *kept);
  kept->given.kernelParams = kept->arguments.empty() ? nullptr : kept->arguments.data();
  kept->given.extra = nullptr;
  return kept;
}

/// The context in which the kernel runs: that of its module, or else the named or current one.
const Context* context_for(const Call& call, const CUDA_KERNEL_NODE_PARAMS& params,
                           const DeviceFunction& function) {
  State& state = call.state();
  const Module* const owner = state.modules.find(function.module);
  if (owner != nullptr && !owner->is_library()) return state.contexts.find(owner->context);
  if (params.func == nullptr && params.ctx != nullptr)
    return state.contexts.find(to_handle(params.ctx));
  return &call.context();
}

CUresult read_kernel_node(const Call& call, const CUDA_KERNEL_NODE_PARAMS& params,
                          Described& described, NodeWork& read) {
  State& state = call.state();
  const DeviceFunction* const found = state.functions.find(to_handle(function_in(params)));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* const context = context_for(call, params, *found);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUlaunchConfig config = configuration_in(params);
  KernelWork work{};
  const CUresult accepted = make_kernel_work(
      state, context->device, {config, function_in(params), params.kernelParams, params.extra},
      *found, described, work);
  if (accepted != CUDA_SUCCESS) return accepted;
  read.context = context->handle;
  read.work = std::move(work);
  read.kernel = keep(state, *found, params, context->handle);
  return CUDA_SUCCESS;
}

/// Calls `body(Call&, CUresult, NodeWork)` with the node that `params` describe.
template <class Body>
CUresult with_kernel(Function function, const CUDA_KERNEL_NODE_PARAMS* params, Body&& body) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUlaunchConfig config = configuration_in(*params);
  Described described =
      describe_launch({config, function_in(*params), params->kernelParams, params->extra});
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  NodeWork work;
  const CUresult accepted = read_kernel_node(call, *params, described, work);
  return body(call, accepted, std::move(work));
}

}  // namespace

void keep_captured_launch(State& state, const Stream& stream, const LaunchRequest& request) {
  const DeviceFunction* const function = state.functions.find(to_handle(request.function));
  if (function == nullptr || stream.captured.nodes.size() != 1) return;
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = request.function;
  params.gridDimX = request.config.gridDimX;
  params.gridDimY = request.config.gridDimY;
  params.gridDimZ = request.config.gridDimZ;
  params.blockDimX = request.config.blockDimX;
  params.blockDimY = request.config.blockDimY;
  params.blockDimZ = request.config.blockDimZ;
  params.sharedMemBytes = request.config.sharedMemBytes;
  params.kernelParams = request.arguments;
  GraphNode& node = *state.graph_nodes.find(to_handle(stream.captured.nodes.front()));
  node.kernel = keep(state, *function, params, node.context);
  for (const CUlaunchAttribute& attribute : attributes_of(request.config))
    if (is_of_nodes(attribute.id)) node.attributes[attribute.id] = attribute.value;
}

CUresult add_kernel_node(Function function, const NodePlace& place,
                         const CUDA_KERNEL_NODE_PARAMS* params) {
  return with_kernel(function, params, [&](Call& call, CUresult accepted, NodeWork work) {
    return add_node(call.state(), place, accepted, std::move(work));
  });
}

CUresult change_kernel_node(Function function, CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS* params) {
  return with_kernel(function, params, [&](Call& call, CUresult accepted, NodeWork work) {
    GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (accepted == CUDA_SUCCESS) change_node(*found, std::move(work));
    return accepted;
  });
}

CUresult change_kernel_exec(Function function, CUgraphExec exec, CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS* params) {
  return with_kernel(function, params, [&](Call& call, CUresult accepted, const NodeWork& work) {
    GraphExec* const changed = call.state().graph_execs.find(to_handle(exec));
    const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return accepted == CUDA_SUCCESS ? change_exec(*changed, *found, work) : accepted;
  });
}

CUresult berth_sim_cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, std::size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  return add_kernel_node(Function::k_cuGraphAddKernelNode, {node, graph, dependencies, count},
                         params);
}

// Without the arguments, a program that passes the parameters on would give the stand-in none.
CUresult berth_sim_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphKernelNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_KERNEL);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool needs_arguments = call.state().config.kernels == Kernels::host;
  if (found->kernel == nullptr || (needs_arguments && found->kernel->arguments.empty()))
    return CUDA_ERROR_NOT_SUPPORTED;
  *params = found->kernel->given;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphKernelNodeSetParams(CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS* params) {
  return change_kernel_node(Function::k_cuGraphKernelNodeSetParams, node, params);
}

CUresult berth_sim_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS* params) {
  return change_kernel_exec(Function::k_cuGraphExecKernelNodeSetParams, exec, node, params);
}

}  // namespace berth::sim
