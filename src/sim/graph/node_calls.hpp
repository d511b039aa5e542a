// SPDX-License-Identifier: Apache-2.0
// The calls that add a node and change it. read(State&, CUcontext, NodeWork&) reads the parameters
// of the caller; of some kinds of nodes, they include a context.
#pragma once

#include <utility>

#include "sim/call.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {

template <class Read>
CUresult add_node(Function function, const NodePlace& place, Read&& read,
                  CUcontext context = nullptr) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  NodeWork work;
  const CUresult accepted = read(call.state(), context, work);
  return add_node(call.state(), place, accepted, std::move(work));
}

/// Changes a node of that type, which keeps its context.
template <class Read>
CUresult change_node(Function function, CUgraphNode node, CUgraphNodeType type, Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphNode* const found = find_node(call.state(), node, type);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult accepted = read(call.state(), from_handle<CUcontext>(found->context), work);
  if (accepted == CUDA_SUCCESS) change_node(*found, std::move(work));
  return accepted;
}

/// Changes it in an executable graph.
template <class Read>
CUresult change_exec(Function function, CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
                     Read&& read, CUcontext context = nullptr) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* const changed = call.state().graph_execs.find(to_handle(exec));
  const GraphNode* const found = find_node(call.state(), node, type);
  if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult accepted = read(call.state(), context, work);
  return accepted == CUDA_SUCCESS ? change_exec(*changed, *found, work) : accepted;
}

}  // namespace berth::sim
