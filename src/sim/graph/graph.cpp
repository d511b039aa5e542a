// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

CUgraphNodeType type_of(const CopyWork&) {
  return CU_GRAPH_NODE_TYPE_MEMCPY;
}
CUgraphNodeType type_of(const FetchWork&) {
  return CU_GRAPH_NODE_TYPE_MEMCPY;
}
CUgraphNodeType type_of(const MemsetWork&) {
  return CU_GRAPH_NODE_TYPE_MEMSET;
}
CUgraphNodeType type_of(const HostFunctionWork&) {
  return CU_GRAPH_NODE_TYPE_HOST;
}
CUgraphNodeType type_of(const KernelWork&) {
  return CU_GRAPH_NODE_TYPE_KERNEL;
}
CUgraphNodeType type_of(const RecordWork&) {
  return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
}
CUgraphNodeType type_of(const ArriveWork&) {
  return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}
CUgraphNodeType type_of(const DepartWork&) {
  return CU_GRAPH_NODE_TYPE_MEM_FREE;
}
CUgraphNodeType type_of(const WaitValueWork& wait) {
  return wait.is_kernel ? CU_GRAPH_NODE_TYPE_KERNEL : CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
}
CUgraphNodeType type_of(const WriteValueWork&) {
  return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
}
CUgraphNodeType type_of(const PrefetchWork&) {
  return CU_GRAPH_NODE_TYPE_EMPTY;  // in no graph
}
CUgraphNodeType type_of(const WaitWork&) {
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

/// The chain that a node can continue: its tail is a dependency of the node, in the same context.
/// So the chain adds no order that the graph does not have.
std::size_t choose_chain(GraphExec& exec, const std::vector<std::size_t>& dependencies,
                         Handle context) {
  for (const std::size_t dependency : dependencies) {
    const std::size_t number = exec.nodes[dependency].chain;
    const GraphExec::Chain& chain = exec.chains[number];
    const bool same_context = context == 0 || context == chain.context;
    if (chain.tail == dependency && same_context) return number;
  }
  exec.chains.push_back({.context = context, .tail = 0});
  return exec.chains.size() - 1;
}

/// Whether `nodes` are nodes of `graph`, without duplicates.
bool are_nodes_of(State& state, const Graph& graph, std::vector<CUgraphNode> nodes) {
  std::sort(nodes.begin(), nodes.end());
  if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) return false;
  return std::all_of(nodes.begin(), nodes.end(), [&](CUgraphNode node) {
    const GraphNode* found = state.graph_nodes.find(reinterpret_cast<Handle>(node));
    return found != nullptr && found->graph == graph.handle;
  });
}

/// Makes `node` run `child`, and own it.
void adopt(GraphNode& node, Graph& child) {
  node.child = child.handle;
  child.parent_node = node.handle;
}

/// Distributes the nodes of a graph to chains. The nodes of a child graph replace their parent.
class Instantiation {
 public:
  Instantiation(State& state, GraphExec& exec) : state_(state), exec_(exec) {}

  /// Adds all of `graph` after `before`. Returns the nodes without successors; `before` if it is
  /// empty.
  std::vector<std::size_t> add(const Graph& graph, const std::vector<std::size_t>& before);

 private:
  /// The node that represents `node`, after `dependencies`.
  std::size_t add(const GraphNode& node, std::vector<std::size_t> dependencies);
  /// The same for one of its operations.
  std::size_t add(const GraphNode& node, const Work& work, std::vector<std::size_t> dependencies);

  State& state_;
  GraphExec& exec_;
};

std::vector<std::size_t> Instantiation::add(const Graph& graph,
                                            const std::vector<std::size_t>& before) {
  for (const auto& [object, count] : graph.held) exec_.held[object] += count;
  std::unordered_map<CUgraphNode, std::size_t> places;
  std::unordered_set<CUgraphNode> inner;  // nodes with successors
  for (const CUgraphNode handle : in_order(state_, graph)) {
    const GraphNode& node = *state_.graph_nodes.find(reinterpret_cast<Handle>(handle));
    std::vector<std::size_t> dependencies =
        node.dependencies.empty() ? before : std::vector<std::size_t>{};
    for (const CUgraphNode earlier : node.dependencies) dependencies.push_back(places.at(earlier));
    inner.insert(node.dependencies.begin(), node.dependencies.end());
    const std::size_t first = exec_.nodes.size();
    if (node.child != 0) dependencies = add(*state_.graphs.find(node.child), dependencies);
    const std::size_t child_nodes = exec_.nodes.size() - first;
    places.emplace(handle, add(node, std::move(dependencies)));
    if (node.child != 0) exec_.nodes[places.at(handle)].child_nodes = child_nodes;
  }
  if (graph.nodes.empty()) return before;
  std::vector<std::size_t> last;
  for (const CUgraphNode handle : graph.nodes)
    if (!inner.contains(handle)) last.push_back(places.at(handle));
  return last;
}

std::size_t Instantiation::add(const GraphNode& node, std::vector<std::size_t> dependencies) {
  std::size_t place = add(node, node.work, std::move(dependencies));
  for (const Work& work : node.further) place = add(node, work, {place});
  return place;
}

std::size_t Instantiation::add(const GraphNode& node, const Work& work,
                               std::vector<std::size_t> dependencies) {
  const std::size_t place = exec_.nodes.size();
  for (const std::size_t earlier : dependencies) exec_.nodes[earlier].is_last = false;
  const std::size_t chain = choose_chain(exec_, dependencies, node.context);
  exec_.chains[chain].tail = place;
  exec_.nodes.push_back({.origin = node.handle,
                         .made = node.made,
                         .work = work,
                         .awaits = node.awaits,
                         .dependencies = std::move(dependencies),
                         .chain = chain,
                         .is_last = true,
                         .memory = node.memory,
                         .batch = node.batch,
                         .freed = node.freed});
  return place;
}

}  // namespace

CUgraphNodeType GraphNode::type() const {
  if (awaits != 0) return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (child != 0) return CU_GRAPH_NODE_TYPE_GRAPH;
  if (batch) return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  return std::visit([](const auto& work_) { return type_of(work_); }, work);
}

std::optional<std::vector<CUgraphNode>> read_dependencies(State& state, const Graph& graph,
                                                          const CUgraphNode* dependencies,
                                                          std::size_t count) {
  // A longer list contains a duplicate, and need not be read.
  if (count > graph.nodes.size() || (count != 0 && dependencies == nullptr)) return std::nullopt;
  std::vector<CUgraphNode> nodes(dependencies, dependencies + count);
  if (!are_nodes_of(state, graph, nodes)) return std::nullopt;
  return nodes;
}

void set_batch(GraphNode& node, Handle context,
               std::span<const CUstreamBatchMemOpParams> operations, std::vector<Work> works) {
  node.batch = std::make_shared<ValueBatch>();
  node.batch->context = context;
  node.batch->operations.assign(operations.begin(), operations.end());
  node.context = context;
  node.work = WaitWork{};
  if (!works.empty()) {
    node.work = std::move(works.front());
    works.erase(works.begin());
  }
  node.further = std::move(works);
}

GraphNode& add_node(State& state, Graph& graph, Handle context, Work work,
                    std::vector<CUgraphNode> dependencies) {
  GraphNode& node =
      state.graph_nodes.create(graph.handle, context, std::move(work), std::move(dependencies));
  graph.nodes.push_back(reinterpret_cast<CUgraphNode>(node.handle));
  node.made = state.call;
  if (node.made.stack == nullptr) node.made.stack = state.stacks.here();
  return node;
}

bool is_too_large_to_clone(State& state, const Graph& graph) {
  std::size_t nodes = state.graph_nodes.size();
  std::vector<const Graph*> open = {&graph};
  while (!open.empty()) {
    const Graph& next = *open.back();
    open.pop_back();
    nodes += next.nodes.size();
    if (nodes > kGraphNodesMax) return true;
    for (const CUgraphNode handle : next.nodes) {
      const GraphNode& node = *state.graph_nodes.find(reinterpret_cast<Handle>(handle));
      nodes += node.further.size();
      if (node.child != 0) open.push_back(state.graphs.find(node.child));
    }
  }
  return false;
}

Graph& clone(State& state, const Graph& graph) {
  Graph& copy = state.graphs.create();
  copy.held = graph.held;
  retain(state, copy.held);
  std::unordered_map<CUgraphNode, CUgraphNode> copies;
  for (const CUgraphNode original : graph.nodes) {
    const GraphNode& node = *state.graph_nodes.find(reinterpret_cast<Handle>(original));
    GraphNode& made = add_node(state, copy, node.context, node.work, {});
    made.further = node.further;
    made.batch = node.batch;
    made.volume = node.volume;
    made.kernel = node.kernel;
    made.attributes = node.attributes;
    made.awaits = node.awaits;
    made.freed = node.freed;
    made.cloned_from = node.handle;
    made.made = node.made;
    if (node.child != 0) adopt(made, clone(state, *state.graphs.find(node.child)));
    copies.emplace(original, reinterpret_cast<CUgraphNode>(made.handle));
  }
  for (const auto& [original, made] : copies)
    for (const CUgraphNode earlier :
         state.graph_nodes.find(reinterpret_cast<Handle>(original))->dependencies)
      state.graph_nodes.find(reinterpret_cast<Handle>(made))
          ->dependencies.push_back(copies.at(earlier));
  copy.has_later_dependencies = graph.has_later_dependencies;
  return copy;
}

GraphNode& add_child_node(State& state, Graph& graph, const Graph& child,
                          std::vector<CUgraphNode> dependencies) {
  Graph& copy = clone(state, child);
  GraphNode& node = add_node(state, graph, 0, WaitWork{}, std::move(dependencies));
  adopt(node, copy);
  return node;
}

void destroy_graph(State& state, Handle graph) {
  Graph& found = *state.graphs.find(graph);
  for (const CUgraphNode node : found.nodes) {
    const Handle child = state.graph_nodes.find(reinterpret_cast<Handle>(node))->child;
    if (child != 0) destroy_graph(state, child);
    state.graph_nodes.erase(reinterpret_cast<Handle>(node));
  }
  release(state, found.held, {});
  state.graphs.erase(graph);
}

std::vector<CUgraphNode> in_order(State& state, const Graph& graph) {
  if (!graph.has_later_dependencies) return graph.nodes;
  std::vector<CUgraphNode> ordered;
  std::unordered_set<CUgraphNode> placed;
  // A node below waits in `open` until its dependencies, which are put above it, are placed.
  for (const CUgraphNode node : graph.nodes) {
    std::vector<CUgraphNode> open = {node};
    while (!open.empty()) {
      const CUgraphNode next = open.back();
      const std::size_t waiting = open.size();
      if (!placed.contains(next))
        for (const CUgraphNode earlier :
             state.graph_nodes.find(reinterpret_cast<Handle>(next))->dependencies)
          if (!placed.contains(earlier)) open.push_back(earlier);
      if (open.size() != waiting) continue;
      open.pop_back();
      if (placed.insert(next).second) ordered.push_back(next);
    }
  }
  return ordered;
}

std::unordered_set<Handle> ancestors(State& state, const std::vector<CUgraphNode>& nodes) {
  std::unordered_set<Handle> reached;
  std::vector<CUgraphNode> open = nodes;
  while (!open.empty()) {
    const auto node = reinterpret_cast<Handle>(open.back());
    open.pop_back();
    if (!reached.insert(node).second) continue;
    const std::vector<CUgraphNode>& earlier = state.graph_nodes.find(node)->dependencies;
    open.insert(open.end(), earlier.begin(), earlier.end());
  }
  return reached;
}

void deal_out(State& state, const Graph& graph, GraphExec& exec) {
  Instantiation(state, exec).add(graph, {});
}

GraphExec& instantiate(State& state, Graph& graph, std::uint64_t flags) {
  GraphExec& exec = state.graph_execs.create(flags);
  graph.exec = exec.handle;
  deal_out(state, graph, exec);
  retain(state, exec.held);
  return exec;
}

void destroy_exec(State& state, Handle exec) {
  GraphExec& found = *state.graph_execs.find(exec);
  if (!found.held.empty())
    state.held_until.push_back({found.last_launch, std::move(found.held), {}});
  state.graph_execs.erase(exec);
  release_completed(state);
}

}  // namespace berth::sim
