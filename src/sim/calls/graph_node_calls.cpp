// SPDX-License-Identifier: Apache-2.0
// Nodes of host functions and events, which a program adds itself, and their parameters.
// Source: CUDA Driver API, "Graph Management".
#include <cstddef>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {
namespace {

/// Gives a node of that type what `read` reads.
template <class Read>
CUresult change(Function function, CUgraphNode node, CUgraphNodeType type, Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphNode* const found = find_node(call.state(), node, type);
  NodeWork work;
  const CUresult accepted = read(call.state(), work);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (accepted == CUDA_SUCCESS) change_node(*found, std::move(work));
  return accepted;
}

/// The same in an executable graph.
template <class Read>
CUresult change(Function function, CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
                Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* const changed = call.state().graph_execs.find(to_handle(exec));
  const GraphNode* const found = find_node(call.state(), node, type);
  NodeWork work;
  const CUresult accepted = read(call.state(), work);
  if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return accepted == CUDA_SUCCESS ? change_exec(*changed, *found, work) : accepted;
}

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
  return [params](State&, NodeWork& work) { return read_host_node(params, work); };
}

auto reading_record(CUevent event) {
  return [event](State& state, NodeWork& work) { return read_record_node(state, event, work); };
}

auto reading_wait(CUevent event) {
  return [event](State& state, NodeWork& work) { return read_wait_node(state, event, work); };
}

template <class Read>
CUresult add(Function function, const NodePlace& place, Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  NodeWork work;
  const CUresult accepted = read(call.state(), work);
  return add_node(call.state(), place, accepted, std::move(work));
}

}  // namespace

CUresult berth_sim_cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies, std::size_t count,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return add(Function::k_cuGraphAddHostNode, {node, graph, dependencies, count}, reading(params));
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
  return change(Function::k_cuGraphHostNodeSetParams, node, CU_GRAPH_NODE_TYPE_HOST,
                reading(params));
}

CUresult berth_sim_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_HOST_NODE_PARAMS* params) {
  return change(Function::k_cuGraphExecHostNodeSetParams, exec, node, CU_GRAPH_NODE_TYPE_HOST,
                reading(params));
}

CUresult berth_sim_cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies, std::size_t count,
                                             CUevent event) {
  return add(Function::k_cuGraphAddEventRecordNode, {node, graph, dependencies, count},
             reading_record(event));
}

CUresult berth_sim_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give_event(Function::k_cuGraphEventRecordNodeGetEvent, node,
                    CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult berth_sim_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(Function::k_cuGraphEventRecordNodeSetEvent, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                reading_record(event));
}

CUresult berth_sim_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                      CUevent event) {
  return change(Function::k_cuGraphExecEventRecordNodeSetEvent, exec, node,
                CU_GRAPH_NODE_TYPE_EVENT_RECORD, reading_record(event));
}

CUresult berth_sim_cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, std::size_t count,
                                           CUevent event) {
  return add(Function::k_cuGraphAddEventWaitNode, {node, graph, dependencies, count},
             reading_wait(event));
}

CUresult berth_sim_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return give_event(Function::k_cuGraphEventWaitNodeGetEvent, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                    event);
}

CUresult berth_sim_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(Function::k_cuGraphEventWaitNodeSetEvent, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                reading_wait(event));
}

CUresult berth_sim_cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                    CUevent event) {
  return change(Function::k_cuGraphExecEventWaitNodeSetEvent, exec, node,
                CU_GRAPH_NODE_TYPE_WAIT_EVENT, reading_wait(event));
}

}  // namespace berth::sim
