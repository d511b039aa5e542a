// SPDX-License-Identifier: Apache-2.0
// Attributes of kernel nodes, which have no effect. One that was not set is zero.
// Source: CUDA Driver API, "Graph Management", CUlaunchAttributeID.
#include <algorithm>

#include "sim/call.hpp"
#include "sim/calls/launch_attributes.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {
namespace {

CUresult check_value(State& state, const GraphNode& node, CUlaunchAttributeID attribute,
                     const CUlaunchAttributeValue& value) {
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
    return is_domain(value.memSyncDomain) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) return CUDA_SUCCESS;
  const Context* const context = state.contexts.find(node.context);
  const bool is_valid =
      context != nullptr && is_window(state, context->device, value.accessPolicyWindow);
  return is_valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult berth_sim_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID attribute,
                                                 CUlaunchAttributeValue* value) {
  Call call(Function::k_cuGraphKernelNodeGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_KERNEL);
  if (found == nullptr || value == nullptr || !is_of_nodes(attribute))
    return CUDA_ERROR_INVALID_VALUE;
  const auto kept = found->attributes.find(attribute);
  *value = kept == found->attributes.end() ? CUlaunchAttributeValue{} : kept->second;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID attribute,
                                                 const CUlaunchAttributeValue* value) {
  Call call(Function::k_cuGraphKernelNodeSetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  GraphNode* const found = find_node(state, node, CU_GRAPH_NODE_TYPE_KERNEL);
  if (found == nullptr || value == nullptr || !is_of_nodes(attribute))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = check_value(state, *found, attribute, *value);
  if (accepted != CUDA_SUCCESS) return accepted;
  CUlaunchAttributeValue kept = *value;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    kept.priority = std::clamp(kept.priority, kGreatestPriority, kLeastPriority);
  found->attributes[attribute] = kept;
  return CUDA_SUCCESS;
}

// "Both node must have the same context."
CUresult berth_sim_cuGraphKernelNodeCopyAttributes(CUgraphNode destination, CUgraphNode source) {
  Call call(Function::k_cuGraphKernelNodeCopyAttributes, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const from = find_node(call.state(), source, CU_GRAPH_NODE_TYPE_KERNEL);
  GraphNode* const to = find_node(call.state(), destination, CU_GRAPH_NODE_TYPE_KERNEL);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (from->context != to->context) return CUDA_ERROR_INVALID_CONTEXT;
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
