// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/node_work.hpp"

#include <algorithm>
#include <utility>

#include "sim/state.hpp"
#include "sim/work/fills.hpp"
#include "sim/work/volumes.hpp"

namespace berth::sim {
namespace {

/// Whether an executable graph takes `work`: copies and fills have one dimension.
bool is_one_row(const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work)) return copy->rows == 1;
  if (const auto* fill = std::get_if<MemsetWork>(&work)) return fill->rows == 1;
  return true;
}

}  // namespace

CUresult read_copy_node(State& state, const CUDA_MEMCPY3D* params, CUcontext context,
                        NodeWork& read) {
  Stretches stretches;
  const CUresult accepted = read_copy(params, stretches);
  if (accepted != CUDA_SUCCESS) return accepted;
  const Context* const found = state.contexts.find(to_handle(context));
  if (found == nullptr || stretches.copies.empty()) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> works;
  for (const CopyWork& copy : stretches.copies) {
    KnownCopy known{};
    const CUresult usable = look_up(state, *found, copy, stretches.sides, known);
    if (usable != CUDA_SUCCESS) return usable;
    works.emplace_back(std::move(known.work));
  }
  read.context = found->handle;
  read.work = std::move(works.front());
  works.erase(works.begin());
  read.further = std::move(works);
  read.volume = std::make_shared<const CUDA_MEMCPY3D>(*params);
  return CUDA_SUCCESS;
}

CUresult read_fill_node(State& state, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context,
                        NodeWork& read) {
  const Context* const found = state.contexts.find(to_handle(context));
  if (params == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const unsigned size = params->elementSize;
  if (size != 1 && size != 2 && size != 4) return CUDA_ERROR_INVALID_VALUE;
  if (params->width == 0 || params->height == 0) return CUDA_ERROR_INVALID_VALUE;
  KnownFill known{};
  const CUresult usable = look_up(
      state, *found,
      {params->dst, params->pitch, params->value, size, params->width, params->height}, known);
  if (usable != CUDA_SUCCESS) return usable;
  read.context = found->handle;
  read.work = known.work;
  return CUDA_SUCCESS;
}

CUresult read_host_node(const CUDA_HOST_NODE_PARAMS* params, NodeWork& read) {
  if (params == nullptr || params->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  read.work = HostFunctionWork{.function = params->fn, .data = params->userData};
  return CUDA_SUCCESS;
}

CUresult read_record_node(State& state, CUevent event, NodeWork& read) {
  const Event* const found = state.events.find(to_handle(event));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  read.context = found->context;
  read.work = RecordWork{found->handle};
  return CUDA_SUCCESS;
}

CUresult read_wait_node(State& state, CUevent event, NodeWork& read) {
  const Event* const found = state.events.find(to_handle(event));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  read.awaits = found->handle;
  return CUDA_SUCCESS;
}

CUresult add_node(State& state, const NodePlace& place, CUresult accepted, NodeWork work) {
  Graph* const found = state.graphs.find(to_handle(place.graph));
  if (place.node == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto earlier = read_dependencies(state, *found, place.dependencies, place.count);
  if (!earlier) return CUDA_ERROR_INVALID_VALUE;
  if (accepted != CUDA_SUCCESS) return accepted;
  GraphNode& made = add_node(state, *found, work.context, WaitWork{}, std::move(*earlier));
  change_node(made, std::move(work));
  *place.node = from_handle<CUgraphNode>(made.handle);
  return CUDA_SUCCESS;
}

GraphNode* find_node(State& state, CUgraphNode node, CUgraphNodeType type) {
  GraphNode* const found = state.graph_nodes.find(to_handle(node));
  return found != nullptr && found->type() == type ? found : nullptr;
}

bool can_be_disabled(const GraphNode& node) {
  const CUgraphNodeType type = node.type();
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

void change_node(GraphNode& node, NodeWork work) {
  node.context = work.context;
  node.work = std::move(work.work);
  node.further = std::move(work.further);
  node.awaits = work.awaits;
  node.volume = std::move(work.volume);
  node.kernel = std::move(work.kernel);
  node.freed.reset();
}

CUresult change_exec(GraphExec& exec, const GraphNode& node, const NodeWork& work) {
  const std::span<GraphExec::Node> nodes = nodes_for(exec, node);
  if (nodes.size() != 1 || !work.further.empty()) return CUDA_ERROR_INVALID_VALUE;
  GraphExec::Node& changed = nodes.front();
  if (!is_one_row(changed.work) || !is_one_row(work.work)) return CUDA_ERROR_INVALID_VALUE;
  if (work.context != 0 && work.context != exec.chains[changed.chain].context)
    return CUDA_ERROR_INVALID_VALUE;
  changed.work = work.work;
  changed.awaits = work.awaits;
  changed.freed.reset();
  return CUDA_SUCCESS;
}

std::span<GraphExec::Node> nodes_for(GraphExec& exec, const GraphNode& node) {
  const auto is_its = [&](const GraphExec::Node& made) { return made.origin == node.handle; };
  const auto first = std::find_if(exec.nodes.begin(), exec.nodes.end(), is_its);
  const auto end = std::find_if_not(first, exec.nodes.end(), is_its);
  return {first, end};
}

}  // namespace berth::sim
