// SPDX-License-Identifier: Apache-2.0
// Nodes by generic parameters, which name their kind. Nodes of external semaphores and conditional
// ones are refused.
// Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/standard_error.hpp"
#include "sim/call.hpp"
#include "sim/calls/kernel_nodes.hpp"
#include "sim/fork.hpp"
#include "sim/graph/edge_data.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {
namespace {

// The older structures, which other functions take, are the beginning of these.
static_assert(sizeof(CUDA_HOST_NODE_PARAMS) == sizeof(CUDA_HOST_NODE_PARAMS_v2));
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2));
static_assert(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS) == sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2));

CUresult refuse(std::string_view function, CUgraphNodeType type) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true, std::memory_order_relaxed))
    write_to_stderr(
        format_text("simulated driver: {} knows no nodes of type {} (external semaphores and "
                    "conditional nodes): CUDA_ERROR_NOT_SUPPORTED\n",
                    function, static_cast<int>(type)));
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Whether what is reserved is zero.
bool is_clean(const CUgraphNodeParams& params) {
  return std::all_of(std::begin(params.reserved0), std::end(params.reserved0),
                     [](int reserved) { return reserved == 0; }) &&
         params.reserved2 == 0;
}

/// A node that takes on the current context if the parameters name none.
CUcontext or_current(const Call& call, CUcontext context) {
  return context != nullptr ? context : from_handle<CUcontext>(call.context().handle);
}

/// Whether `params` are of a kind that read() reads.
bool is_plain(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_HOST ||
         type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
}

/// Reads parameters of a plain kind.
CUresult read(const Call& call, const CUgraphNodeParams& params, NodeWork& work) {
  State& state = call.state();
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return read_copy_node(state, &params.memcpy.copyParams,
                            or_current(call, params.memcpy.copyCtx), work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill{.dst = params.memset.dst,
                                         .pitch = params.memset.pitch,
                                         .value = params.memset.value,
                                         .elementSize = params.memset.elementSize,
                                         .width = params.memset.width,
                                         .height = params.memset.height};
      return read_fill_node(state, &fill, or_current(call, params.memset.ctx), work);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{.fn = params.host.fn, .userData = params.host.userData};
      return read_host_node(&host, work);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return read_wait_node(state, params.eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return read_record_node(state, params.eventRecord.event, work);
    default:
      return CUDA_SUCCESS;
  }
}

/// Whether `params` are of a kernel. Such calls have their own beginning.
bool are_of_kernel(const CUgraphNodeParams* params) {
  return !is_parents_driver() && params != nullptr && is_clean(*params) &&
         params->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUDA_KERNEL_NODE_PARAMS kernel_of(const CUgraphNodeParams& params) {
  return {.func = params.kernel.func,
          .gridDimX = params.kernel.gridDimX,
          .gridDimY = params.kernel.gridDimY,
          .gridDimZ = params.kernel.gridDimZ,
          .blockDimX = params.kernel.blockDimX,
          .blockDimY = params.kernel.blockDimY,
          .blockDimZ = params.kernel.blockDimZ,
          .sharedMemBytes = params.kernel.sharedMemBytes,
          .kernelParams = params.kernel.kernelParams,
          .extra = params.kernel.extra,
          .kern = params.kernel.kern,
          .ctx = params.kernel.ctx};
}

CUDA_BATCH_MEM_OP_NODE_PARAMS batch_of(const CUgraphNodeParams& params) {
  return {.ctx = params.memOp.ctx,
          .count = params.memOp.count,
          .paramArray = params.memOp.paramArray,
          .flags = params.memOp.flags};
}

CUresult add_allocation(State& state, const NodePlace& place, CUgraphNodeParams& params) {
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{.poolProps = params.alloc.poolProps,
                                        .accessDescs = params.alloc.accessDescs,
                                        .accessDescCount = params.alloc.accessDescCount,
                                        .bytesize = params.alloc.bytesize,
                                        .dptr = 0};
  const CUresult added = add_allocation_node(state, place, &allocation);
  if (added == CUDA_SUCCESS) params.alloc.dptr = allocation.dptr;
  return added;
}

}  // namespace

CUresult berth_sim_cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  const CUgraphEdgeData* data, std::size_t count,
                                  CUgraphNodeParams* params) {
  if (are_of_kernel(params) && (count == 0 || data == nullptr)) {
    const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(*params);
    return add_kernel_node(Function::k_cuGraphAddNode, {node, graph, dependencies, count}, &kernel);
  }
  Call call(Function::k_cuGraphAddNode, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr || !is_clean(*params)) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  if (count != 0 && dependencies != nullptr && count <= state.graph_nodes.size() &&
      have_data(data, count))
    return CUDA_ERROR_NOT_SUPPORTED;
  const NodePlace place{node, graph, dependencies, count};
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      if (params->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
        return CUDA_ERROR_NOT_SUPPORTED;
      return add_child_node(state, place, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return add_allocation(state, place, *params);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return add_free_node(state, place, params->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(*params);
      return add_batch_node(state, place, &batch);
    }
    default:
      break;
  }
  if (!is_plain(params->type)) return refuse("cuGraphAddNode", params->type);
  NodeWork work;
  const CUresult accepted = read(call, *params, work);
  return add_node(state, place, accepted, std::move(work));
}

CUresult berth_sim_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  if (are_of_kernel(params)) {
    const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(*params);
    return change_kernel_node(Function::k_cuGraphNodeSetParams, node, &kernel);
  }
  Call call(Function::k_cuGraphNodeSetParams, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr || !is_clean(*params)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* const found = find_node(call.state(), node, params->type);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(*params);
    return change_batch_node(call.state(), node, &batch);
  }
  if (!is_plain(params->type)) return refuse("cuGraphNodeSetParams", params->type);
  NodeWork work;
  const CUresult accepted = read(call, *params, work);
  if (accepted == CUDA_SUCCESS) change_node(*found, std::move(work));
  return accepted;
}

CUresult berth_sim_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            CUgraphNodeParams* params) {
  if (are_of_kernel(params)) {
    const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(*params);
    return change_kernel_exec(Function::k_cuGraphExecNodeSetParams, exec, node, &kernel);
  }
  Call call(Function::k_cuGraphExecNodeSetParams, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr || !is_clean(*params)) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  GraphExec* const changed = state.graph_execs.find(to_handle(exec));
  const GraphNode* const found = find_node(state, node, params->type);
  if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return change_child_exec(state, exec, node, params->graph.graph);
  if (params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(*params);
    return change_batch_exec(state, exec, node, &batch);
  }
  if (!is_plain(params->type)) return refuse("cuGraphExecNodeSetParams", params->type);
  NodeWork work;
  const CUresult accepted = read(call, *params, work);
  return accepted == CUDA_SUCCESS ? change_exec(*changed, *found, work) : accepted;
}

}  // namespace berth::sim
