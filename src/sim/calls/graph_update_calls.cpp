// SPDX-License-Identifier: Apache-2.0
// Changes of executable graphs, and pictures of graphs.
// Source: CUDA Driver API, "Graph Management".
#include <fstream>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "sim/call.hpp"
#include "sim/graph/graph_update.hpp"

namespace berth::sim {
namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "copy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "fill";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "host function";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "child graph";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "wait for an event";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "record of an event";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "allocation";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "free";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "memory operations";
    default:
      return "empty";
  }
}

/// `graph` and its child graphs as text in the language of Graphviz.
std::string picture_of(State& state, const Graph& graph) {
  std::string lines;
  for (const CUgraphNode handle : graph.nodes) {
    const GraphNode& node = *state.graph_nodes.find(to_handle(handle));
    lines += format_text("  \"{:#x}\" [label=\"{}\\n{:#x}\"];\n", node.handle, name_of(node.type()),
                         node.handle);
    for (const CUgraphNode earlier : node.dependencies)
      lines += format_text("  \"{:#x}\" -> \"{:#x}\";\n", to_handle(earlier), node.handle);
    if (node.child == 0) continue;
    lines += format_text("  subgraph \"cluster_{:#x}\" {{\n  label=\"child graph of {:#x}\";\n",
                         node.child, node.handle);
    lines += picture_of(state, *state.graphs.find(node.child)) + "  }\n";
  }
  return lines;
}

}  // namespace

CUresult berth_sim_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph,
                                     CUgraphExecUpdateResultInfo* result) {
  Call call(Function::k_cuGraphExecUpdate, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *result = {.result = CU_GRAPH_EXEC_UPDATE_ERROR, .errorNode = nullptr, .errorFromNode = nullptr};
  State& state = call.state();
  GraphExec* const updated = state.graph_execs.find(to_handle(exec));
  const Graph* const found = state.graphs.find(to_handle(graph));
  const bool is_whole = found != nullptr && found->capture == 0;
  if (updated == nullptr || !is_whole) return CUDA_ERROR_INVALID_VALUE;
  *result = update(state, *updated, *found);
  return result->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                        : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

// The flags ask for more detail than there is.
CUresult berth_sim_cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  std::string picture;
  {
    Call call(Function::k_cuGraphDebugDotPrint, Needs::driver);
    if (call.refusal() != CUDA_SUCCESS) return call.refusal();
    const Graph* const found = call.state().graphs.find(to_handle(graph));
    if (found == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    picture = "digraph \"graph\" {\n" + picture_of(call.state(), *found) + "}\n";
  }
  std::ofstream file(path, std::ios::binary);
  file << picture;
  file.close();
  return file.good() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace berth::sim
