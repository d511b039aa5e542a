// SPDX-License-Identifier: Apache-2.0
// Memory that graphs own: an allocation node has an address for as long as the node, or anything
// made from it, exists; the memory is there from the allocation to the free in the order of the
// graph. For calls it is there from the launch that allocates it to the call that frees it, or to
// the launch that does. Pages stay with their address until cuDeviceGraphMemTrim, or the end of the
// node. Guarded by sim::mutex.
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
  ~GraphMemory();  ///< gives back address and pages; no work uses them any more
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// The range of the address, which work does not see.
  [[nodiscard]] Range& range() const;
  [[nodiscard]] bool is_allocated() const { return allocation != nullptr; }

  State& state;
  const std::uint64_t start;
  const std::uint64_t bytes;
  const int device;
  const Handle owner;                   ///< the graph with the allocation node
  std::vector<CUmemAccessDesc> access;  ///< as the node's parameters had it
  PhysicalBlock* block = nullptr;
  std::shared_ptr<const Range> allocation;  ///< from the launch to the free; null: none
  Handle context = 0;                       ///< of the launch that allocated it
  Submitted freed;                          ///< the last free
  bool freed_by_owner = false;              ///< the owner has a free node
  bool freed_by_others = false;             ///< another graph has
};

/// Memory of all graphs, and what of it outlives its graphs: it is allocated.
struct GraphMemories {
  std::map<std::uint64_t, GraphMemory*> by_start;
  std::set<std::shared_ptr<GraphMemory>> allocated;
};

/// What the memory of a device's graphs comes to, in bytes.
struct GraphMemoryUse {
  void use(std::uint64_t bytes);
  void reserve(std::uint64_t bytes);

  std::uint64_t used = 0;
  std::uint64_t used_peak = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_peak = 0;
};

/// Memory for a node of `owner`, with the access of `readers` and `writers`; null where there is no
/// room for its address, or the device is smaller.
std::shared_ptr<GraphMemory> make_graph_memory(State& state, Handle owner, int device,
                                               std::uint64_t bytes, DeviceSet readers,
                                               DeviceSet writers);
/// The memory of the node that gave `start`; null if there is none.
std::shared_ptr<GraphMemory> find_graph_memory(State& state, std::uint64_t start);

/// Whether `graph` may have a node that frees `memory`; notes that it has.
bool claim_free(State& state, const Graph& graph, GraphMemory& memory);
bool has_memory_nodes(State& state, const Graph& graph);

/// Whether a launch of `exec` would allocate nothing twice, and free only what is allocated.
bool may_launch(const GraphExec& exec);
/// Gives every allocation of `exec` its pages. False, and nothing has changed, where the device has
/// too few.
bool provide_pages(State& state, const GraphExec& exec);
/// Frees what earlier launches of `exec` have left, behind the work of `stream`.
void free_left_over(State& state, const GraphExec& exec, Stream& stream) BERTH_REQUIRES(mutex);

/// What a launch from `context` submits for an allocation node, and for a free node.
Work begin_allocation(State& state, const std::shared_ptr<GraphMemory>& memory, Handle context);
Work end_allocation(State& state, const std::shared_ptr<GraphMemory>& memory);
/// That free is `freed`.
void note_free(State& state, const std::shared_ptr<GraphMemory>& memory, Submitted freed);

/// Gives back the pages of a device's graphs that no work uses.
void trim_graph_memory(State& state, int device);

}  // namespace berth::sim
