// SPDX-License-Identifier: Apache-2.0
// Graphs: work, and the order between pieces of it. A graph can grow; its executable form is a copy
// that cannot, dealt out to chains, which are streams while it runs. What must hold: a node comes
// after the nodes that it depends on, in its graph and in the executable form, so there is no
// cycle. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
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

struct State;
struct Stream;

/// Host memory that a node uses and that was freed since.
struct FreedMemory {
  CallSite call;  ///< that freed it
  Use use;        ///< the node's: addresses and kind
};

/// The operations of a node, as they were given.
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

  Handle handle;
  Handle graph;
  Handle context;                  ///< in which it runs; 0: in that of the launch
  Work work;                       ///< WaitWork where it does nothing itself
  std::vector<Work> further = {};  ///< what it does after that, one after the other
  Handle awaits = 0;  ///< an event: waits for what that was recorded behind at the launch
  /// That the node allocates, where its work is ArriveWork, or frees; its work names no range.
  std::shared_ptr<GraphMemory> memory = nullptr;
  std::shared_ptr<ValueBatch> batch = nullptr;  ///< of a node of waits for values and writes
  std::vector<CUgraphNode> dependencies;        ///< each once
  std::optional<FreedMemory> freed;
  Handle child = 0;        ///< the graph that the node runs, and owns; 0 where it runs none
  Handle cloned_from = 0;  ///< the node of which this one was made
};

/// Graphs and executable graphs that exist: where there are none, what an allocator reuses need not
/// be looked at. Read without the lock.
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
  Handle capture = 0;      ///< that records into it, and owns it until then
  Handle parent_node = 0;  ///< that runs it as a child graph, and owns it
  Handle exec = 0;         ///< made last from it: there may be one at a time where it owns memory
  std::vector<CUgraphNode> nodes;
  HeldObjects held;
};

/// What cuGraphInstantiate makes.
struct GraphExec {
  struct Node {
    Handle origin;  ///< the graph's node, of which there may be several here, in a row
    Work work;
    Handle awaits;
    std::vector<std::size_t> dependencies;  ///< in `nodes`
    std::size_t chain;
    bool is_last;                         ///< nothing depends on it
    std::shared_ptr<GraphMemory> memory;  ///< as the node's, like the next
    std::shared_ptr<const ValueBatch> batch;
    std::optional<FreedMemory> freed;
  };
  /// Nodes one after the other, each depending on the one before, all in one context.
  struct Chain {
    Handle context;
    std::size_t tail;  ///< its last node
  };

  GraphExec(Handle handle_, std::uint64_t flags_) : handle(handle_), flags(flags_) {}

  [[nodiscard]] bool frees_on_launch() const {
    return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  }

  Counted counted;
  Handle handle;
  std::uint64_t flags;  ///< of cuGraphInstantiate
  std::vector<Node> nodes;
  std::vector<Chain> chains;
  Submitted last_launch;
  HeldObjects held;  ///< as the graph, from which it was made, held them then
};

using Graphs = HandleTable<Graph, HandleKind::graph>;
using GraphNodes = HandleTable<GraphNode, HandleKind::graph_node>;
using GraphExecs = HandleTable<GraphExec, HandleKind::graph_exec>;

/// The nodes that a call names as dependencies of a new node of `graph`; nullopt where they are not
/// nodes of it, each once.
std::optional<std::vector<CUgraphNode>> read_dependencies(State& state, const Graph& graph,
                                                          const CUgraphNode* dependencies,
                                                          std::size_t count);

/// `node` does `works`, which `operations` in `context` mean.
void set_batch(GraphNode& node, Handle context,
               std::span<const CUstreamBatchMemOpParams> operations, std::vector<Work> works);

/// `dependencies` are nodes of `graph`, each once.
GraphNode& add_node(State& state, Graph& graph, Handle context, Work work,
                    std::vector<CUgraphNode> dependencies);
/// Clones stop at so many nodes of all graphs: a graph that a clone of itself is added to doubles.
constexpr std::size_t kGraphNodesMax = std::size_t{1} << 18;
/// Whether a copy of `graph` with its child graphs exceeds kGraphNodesMax.
bool is_too_large_to_clone(State& state, const Graph& graph);
/// A copy of `graph` with its nodes, child graphs and references to user objects.
Graph& clone(State& state, const Graph& graph);
/// Adds a node that runs a clone of `child`, which may be `graph` itself.
GraphNode& add_child_node(State& state, Graph& graph, const Graph& child,
                          std::vector<CUgraphNode> dependencies);
/// With its nodes, child graphs, and what they hold. What is instantiated from it stays.
void destroy_graph(State& state, Handle graph) BERTH_REQUIRES(mutex);
/// `nodes`, and all that they depend on.
std::unordered_set<Handle> ancestors(State& state, const std::vector<CUgraphNode>& nodes);

/// With CUDA_GRAPH_INSTANTIATE_FLAG_*.
GraphExec& instantiate(State& state, Graph& graph, std::uint64_t flags);
/// What it holds it keeps while a launch of it runs.
void destroy_exec(State& state, Handle exec) BERTH_REQUIRES(mutex);

/// Runs `exec` behind the work of `stream` and behind its own earlier launch; what follows on
/// `stream` waits for all of it. CUDA_ERROR_INVALID_VALUE, and nothing runs, where a context or an
/// event that it uses is gone, or memory of graphs would be allocated or freed twice; memory that
/// is gone faults when it runs. May let go of the lock. Host memory that was freed is also a
/// finding.
CUresult launch(State& state, GraphExec& exec, Stream& stream) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
