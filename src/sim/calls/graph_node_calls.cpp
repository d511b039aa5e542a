// SPDX-License-Identifier: Apache-2.0
// Nodes of host functions and events, which a program adds itself, and their parameters.
// Source: CUDA Driver API, "Graph Management".
#include <cstddef>

#include "sim/graph/node_calls.hpp"

namespace berth::sim {
namespace {

CUresult give_event(Function function, CUgraphNode node, CUgraphNodeType type, CUevent* event) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, type);
  if (found == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* const record = std::get_if<RecordWork>(&found->work);
  *event = from_handle<CUevent>(record != nullptr ? record->event : found->awaits);
  return CUDA_SUCCESS;
}

auto reading(const CUDA_HOST_NODE_PARAMS* params) {
  return [params](State&, CUcontext, NodeWork& work) { return read_host_node(params, work); };
}

auto reading_record(CUevent event) {
  return [event](State& state, CUcontext, NodeWork& work) {
    return read_record_node(state, event, work);
  };
}

auto reading_wait(CUevent event) {
  return [event](State& state, CUcontext, NodeWork& work) {
    return read_wait_node(state, event, work);
  };
}

}  // namespace

CUresult berth_sim_cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies, std::size_t count,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return add_node(Function::k_cuGraphAddHostNode, {node, graph, dependencies, count},
                  reading(params));
}

CUresult berth_sim_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphHostNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_HOST);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& host = std::get<HostFunctionWork>(found->work);
  params->fn = host.function;
  params->userData = host.data;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return change_node(Function::k_cuGraphHostNodeSetParams, node, CU_GRAPH_NODE_TYPE_HOST,
                     reading(params));
}

CUresult berth_sim_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_HOST_NODE_PARAMS* params) {
  return change_exec(Function::k_cuGraphExecHostNodeSetParams, exec, node, CU_GRAPH_NODE_TYPE_HOST,
                     reading(params));
}

CUresult berth_sim_cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies, std::size_t count,
                                             CUevent event) {
  return add_node(Function::k_cuGraphAddEventRecordNode, {node, graph, dependencies, count},
                  reading_record(event));
}

CUresult berth_sim_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give_event(Function::k_cuGraphEventRecordNodeGetEvent, node,
                    CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult berth_sim_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change_node(Function::k_cuGraphEventRecordNodeSetEvent, node,
                     CU_GRAPH_NODE_TYPE_EVENT_RECORD, reading_record(event));
}

CUresult berth_sim_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                      CUevent event) {
  return change_exec(Function::k_cuGraphExecEventRecordNodeSetEvent, exec, node,
                     CU_GRAPH_NODE_TYPE_EVENT_RECORD, reading_record(event));
}

CUresult berth_sim_cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, std::size_t count,
                                           CUevent event) {
  return add_node(Function::k_cuGraphAddEventWaitNode, {node, graph, dependencies, count},
                  reading_wait(event));
}

CUresult berth_sim_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give_event(Function::k_cuGraphEventWaitNodeGetEvent, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                    event);
}

CUresult berth_sim_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change_node(Function::k_cuGraphEventWaitNodeSetEvent, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                     reading_wait(event));
}

CUresult berth_sim_cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                    CUevent event) {
  return change_exec(Function::k_cuGraphExecEventWaitNodeSetEvent, exec, node,
                     CU_GRAPH_NODE_TYPE_WAIT_EVENT, reading_wait(event));
}

}  // namespace berth::sim
