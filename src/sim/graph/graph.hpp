// SPDX-License-Identifier: Apache-2.0
// Graphs: work and its order. A graph can change; its executable form is a copy whose nodes are
// distributed to chains, which are streams while it runs. Invariants: the edges of a graph form no
// cycle; in the executable form a node follows its dependencies. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "sim/graph/graph_memory.hpp"
#include "sim/graph/user_object.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct KernelNodeParams;
struct State;
struct Stream;

/// Host memory that a node uses and that was freed after the node was created.
struct FreedMemory {
  CallSite call;  ///< the call that freed it
  Use use;        ///< addresses and kind of the node's use
};

/// The operations of a node as the caller passed them.
struct ValueBatch {
  Handle context;
  std::vector<CUstreamBatchMemOpParams> operations;
};

struct GraphNode {
  GraphNode(Handle handle_, Handle graph_, Handle context_, Work work_,
            std::vector<CUgraphNode> dependencies_)
      : handle(handle_),
        graph(graph_),
        context(context_),
        work(std::move(work_)),
        dependencies(std::move(dependencies_)) {}

  [[nodiscard]] CUgraphNodeType type() const;

  CallSite made = {};  ///< the call that added or captured it, or the original of a clone
  Handle handle;
  Handle graph;
  Handle context;                  ///< in which it runs; 0: the context of the launch
  Work work;                       ///< WaitWork if it does nothing itself
  std::vector<Work> further = {};  ///< its other operations, in order
  Handle awaits = 0;               ///< an event: the node waits for its latest record at launch
  /// The memory that the node allocates (ArriveWork) or frees; its work names no range.
  std::shared_ptr<GraphMemory> memory = nullptr;
  std::shared_ptr<ValueBatch> batch = nullptr;  ///< of a node of value waits and writes
  /// The parameters of a node of a copy that a program added or changed; null if it was captured.
  std::shared_ptr<const CUDA_MEMCPY3D> volume = nullptr;
  std::shared_ptr<const KernelNodeParams> kernel = nullptr;  ///< of a kernel that was launched
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes = {};  ///< set, of a kernel
  std::vector<CUgraphNode> dependencies;                                  ///< without duplicates
  std::optional<FreedMemory> freed;
  Handle child = 0;        ///< the graph that the node runs and owns; 0: none
  Handle cloned_from = 0;  ///< the original of this copy
};

/// The number of existing graphs and executable graphs: at 0, allocators skip the check of reused
/// memory. Read without the lock.
inline constinit std::atomic<std::size_t> graphs_existing = 0;

struct Counted {
  Counted() { ++graphs_existing; }
  ~Counted() { --graphs_existing; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

struct Graph {
  explicit Graph(Handle handle_) : handle(handle_) {}

  Counted counted;
  Handle handle;
  Handle capture = 0;              ///< the capture that records and owns it
  Handle parent_node = 0;          ///< the node that runs and owns it as a child graph
  Handle exec = 0;                 ///< the latest made from it; the only one if it owns memory
  std::vector<CUgraphNode> nodes;  ///< in the order in which they were added
  /// Whether a node may come before one of its dependencies.
  bool has_later_dependencies = false;
  HeldObjects held;
};

/// An instantiated graph.
struct GraphExec {
  struct Node {
    Handle origin;  ///< the graph's node, which may have several nodes here, in a row
    CallSite made;
    Work work;
    Handle awaits;
    std::vector<std::size_t> dependencies;  ///< indices in `nodes`
    std::size_t chain;
    bool is_last;                         ///< no node depends on it
    std::shared_ptr<GraphMemory> memory;  ///< that of the origin, as are the next two
    std::shared_ptr<const ValueBatch> batch;
    std::optional<FreedMemory> freed;
    std::size_t child_nodes = 0;  ///< of the child graph that it ends; they precede it
    bool is_enabled = true;
  };
  /// Consecutive nodes of one context, each depending on the one before.
  struct Chain {
    Handle context;
    std::size_t tail;  ///< the last node
  };

  GraphExec(Handle handle_, std::uint64_t flags_) : handle(handle_), flags(flags_) {}

  [[nodiscard]] bool frees_on_launch() const {
    return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  }

  Counted counted;
  Handle handle;
  std::uint64_t flags;  ///< flags of cuGraphInstantiate
  std::vector<Node> nodes;
  std::vector<Chain> chains;
  Submitted last_launch;
  HeldObjects held;  ///< the objects that the graph held at instantiation
};

using Graphs = HandleTable<Graph, HandleKind::graph>;
using GraphNodes = HandleTable<GraphNode, HandleKind::graph_node>;
using GraphExecs = HandleTable<GraphExec, HandleKind::graph_exec>;

/// The dependencies that a call passed for a new node of `graph`; nullopt if they are not distinct
/// nodes of it.
std::optional<std::vector<CUgraphNode>> read_dependencies(State& state, const Graph& graph,
                                                          const CUgraphNode* dependencies,
                                                          std::size_t count);

/// Sets the operations of `node` in `context`, and the `works` that they were converted to.
void set_batch(GraphNode& node, Handle context,
               std::span<const CUstreamBatchMemOpParams> operations, std::vector<Work> works);

/// `dependencies` are distinct nodes of `graph`.
GraphNode& add_node(State& state, Graph& graph, Handle context, Work work,
                    std::vector<CUgraphNode> dependencies);
/// The limit of clones, in nodes of all graphs: adding a clone of a graph to itself doubles it.
constexpr std::size_t kGraphNodesMax = std::size_t{1} << 18;
/// Whether a copy of `graph` with its child graphs exceeds kGraphNodesMax.
bool is_too_large_to_clone(State& state, const Graph& graph);
/// A copy of `graph` with its nodes, child graphs and references to user objects.
Graph& clone(State& state, const Graph& graph);
/// Adds a node that runs a clone of `child`, which may be `graph` itself.
GraphNode& add_child_node(State& state, Graph& graph, const Graph& child,
                          std::vector<CUgraphNode> dependencies);
/// Also destroys its nodes, child graphs, and references. Executable graphs stay.
void destroy_graph(State& state, Handle graph) BERTH_REQUIRES(mutex);
/// The nodes of `graph` so that each follows its dependencies, otherwise as they were added.
std::vector<CUgraphNode> in_order(State& state, const Graph& graph);
/// `nodes` and all their direct and indirect dependencies.
std::unordered_set<Handle> ancestors(State& state, const std::vector<CUgraphNode>& nodes);

/// Copies the nodes of `graph` to `exec`, which has none, without retaining the objects they hold.
void deal_out(State& state, const Graph& graph, GraphExec& exec);
/// `flags`: CUDA_GRAPH_INSTANTIATE_FLAG_*.
GraphExec& instantiate(State& state, Graph& graph, std::uint64_t flags);
/// A running launch keeps the objects that `exec` holds.
void destroy_exec(State& state, Handle exec) BERTH_REQUIRES(mutex);

/// Runs `exec` after the work of `stream` and after its own previous launch; later work of `stream`
/// waits for all of it. Returns CUDA_ERROR_INVALID_VALUE, and runs nothing, if a context or an
/// event was destroyed, or if graph memory would be allocated or freed twice. Work on freed memory
/// faults when it runs; freed host memory is also a finding. May release the lock.
CUresult launch(State& state, GraphExec& exec, Stream& stream) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
