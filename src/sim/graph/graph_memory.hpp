// SPDX-License-Identifier: Apache-2.0
// Memory that graphs own. An allocation node has an address while the node, or a copy of it,
// exists. The memory exists from the allocation to the free in graph order; for calls, from the
// launch that allocates it to the call, or the launch, that frees it. Pages stay mapped until
// cuDeviceGraphMemTrim or the end of the node. Guarded by sim::mutex.
// Source: CUDA Driver API, cuGraphAddMemAllocNode, cuDeviceGraphMemTrim; CUDA Programming Guide,
// "Graph Memory Nodes".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.hpp"
#include "sim/lock.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct Graph;
struct GraphExec;
struct State;
struct Stream;

/// The memory of an allocation node.
struct GraphMemory : std::enable_shared_from_this<GraphMemory> {
  /// `start` is a reserved address for `bytes` on the device in slot `device`.
  GraphMemory(State& state, std::uint64_t start, std::uint64_t bytes, int device, Handle owner);
  ~GraphMemory();  ///< frees address and pages, which no work uses any more
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// The range of the address, which is invisible to work.
  [[nodiscard]] Range& range() const;
  [[nodiscard]] bool is_allocated() const { return allocation != nullptr; }

  State& state;
  const std::uint64_t start;
  const std::uint64_t bytes;
  const int device;
  const Handle owner;                   ///< the graph with the allocation node
  std::vector<CUmemAccessDesc> access;  ///< from the parameters of the node
  PhysicalBlock* block = nullptr;
  std::shared_ptr<const Range> allocation;  ///< from the launch to the free; null: none
  Handle context = 0;                       ///< of the launch that allocated it
  Submitted freed;                          ///< the latest free
  bool freed_by_owner = false;              ///< the owner has a free node
  bool freed_by_others = false;             ///< another graph has a free node
};

/// The memory of all graphs. Allocated memory may outlive its graph.
struct GraphMemories {
  std::map<std::uint64_t, GraphMemory*> by_start;
  std::set<std::shared_ptr<GraphMemory>> allocated;
};

/// The graph memory of a device, in bytes.
struct GraphMemoryUse {
  void use(std::uint64_t bytes);
  void reserve(std::uint64_t bytes);

  std::uint64_t used = 0;
  std::uint64_t used_peak = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_peak = 0;
};

/// Creates the memory of a node of `owner`, accessible to `readers` and `writers`. Null if there is
/// no address, or the device is smaller.
std::shared_ptr<GraphMemory> make_graph_memory(State& state, Handle owner, int device,
                                               std::uint64_t bytes, DeviceSet readers,
                                               DeviceSet writers);
/// The memory at address `start`; null if there is none.
std::shared_ptr<GraphMemory> find_graph_memory(State& state, std::uint64_t start);

/// Whether a node of `graph` may free `memory`; records the node.
bool claim_free(State& state, const Graph& graph, GraphMemory& memory);
bool has_memory_nodes(State& state, const Graph& graph);

/// Whether a launch of `exec` allocates only free memory, and frees only allocated memory.
bool may_launch(const GraphExec& exec);
/// Maps pages for every allocation of `exec`. False, and nothing has changed, if the device has too
/// few.
bool provide_pages(State& state, const GraphExec& exec);
/// Frees the memory that earlier launches of `exec` left allocated, after the work of `stream`.
void free_left_over(State& state, const GraphExec& exec, Stream& stream) BERTH_REQUIRES(mutex);

/// The work of an allocation node launched from `context`, and of a free node.
Work begin_allocation(State& state, const std::shared_ptr<GraphMemory>& memory, Handle context);
Work end_allocation(State& state, const std::shared_ptr<GraphMemory>& memory);
/// Records the operation that frees `memory`.
void note_free(State& state, const std::shared_ptr<GraphMemory>& memory, Submitted freed);

/// Frees the pages of a device's graph memory that no work uses.
void trim_graph_memory(State& state, int device);

}  // namespace berth::sim
