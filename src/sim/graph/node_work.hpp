// SPDX-License-Identifier: Apache-2.0
// What a node does, from the parameters of a caller; for nodes that a program adds, and for changes
// of nodes and of executable graphs. Guarded by sim::mutex.
// Source: CUDA Driver API, "Graph Management".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sim/graph/graph.hpp"

namespace berth::sim {

struct NodeWork {
  Handle context = 0;  ///< in which it runs; 0: the context of the launch
  Work work = WaitWork{};
  std::vector<Work> further = {};
  Handle awaits = 0;
  std::shared_ptr<const CUDA_MEMCPY3D> volume = nullptr;
  std::shared_ptr<const KernelNodeParams> kernel = nullptr;
};

/// The parameters of a node that a program adds.
struct NodePlace {
  CUgraphNode* node;
  CUgraph graph;
  const CUgraphNode* dependencies;
  std::size_t count;
};

// CUDA_ERROR_INVALID_VALUE for parameters that are null or invalid, for an empty copy or fill, for
// memory that is not there or that the context cannot reach, and for objects that do not exist.
CUresult read_copy_node(State& state, const CUDA_MEMCPY3D* params, CUcontext context,
                        NodeWork& read);
CUresult read_fill_node(State& state, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context,
                        NodeWork& read);
CUresult read_host_node(const CUDA_HOST_NODE_PARAMS* params, NodeWork& read);
CUresult read_record_node(State& state, CUevent event, NodeWork& read);
CUresult read_wait_node(State& state, CUevent event, NodeWork& read);

/// Adds a node, unless `accepted` is an error, which is returned.
CUresult add_node(State& state, const NodePlace& place, CUresult accepted, NodeWork work);

// Nodes of other kinds, as the functions of their names add them. Defined with these.
CUresult add_child_node(State& state, const NodePlace& place, CUgraph child);
CUresult add_allocation_node(State& state, const NodePlace& place,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params);
CUresult add_free_node(State& state, const NodePlace& place, CUdeviceptr pointer);
CUresult add_batch_node(State& state, const NodePlace& place,
                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params);
CUresult change_batch_node(State& state, CUgraphNode node,
                           const CUDA_BATCH_MEM_OP_NODE_PARAMS* params);
CUresult change_batch_exec(State& state, CUgraphExec exec, CUgraphNode node,
                           const CUDA_BATCH_MEM_OP_NODE_PARAMS* params);
CUresult change_child_exec(State& state, CUgraphExec exec, CUgraphNode node, CUgraph child);

/// The node, if it exists and has the type; otherwise null.
GraphNode* find_node(State& state, CUgraphNode node, CUgraphNodeType type);

/// Whether launches can leave the node out.
bool can_be_disabled(const GraphNode& node);

/// Gives `node`, which has work of the same kind, other parameters. Executable graphs stay.
void change_node(GraphNode& node, NodeWork work);

/// Gives the nodes that `exec` has for `node` other parameters. CUDA_ERROR_INVALID_VALUE if it has
/// none, if the context is another, and for copies and fills of more than one row.
CUresult change_exec(GraphExec& exec, const GraphNode& node, const NodeWork& work);

/// The nodes that `exec` has for `node`; empty if it was made without it.
std::span<GraphExec::Node> nodes_for(GraphExec& exec, const GraphNode& node);

}  // namespace berth::sim
