// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/graph_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "sim/state.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

GraphMemoryUse& use_of(State& state, int device) {
  return state.devices[static_cast<std::size_t>(device)].graph_memory;
}

std::uint64_t whole_granules(const State& state, std::uint64_t bytes) {
  return align_up(bytes, state.config.granularity);
}

bool provide(GraphMemory& memory) {
  State& state = memory.state;
  const std::uint64_t bytes = whole_granules(state, memory.bytes);
  PhysicalBlock& block = state.blocks.create(memory.device, bytes);
  if (!state.devices[static_cast<std::size_t>(memory.device)].memory->allocate(block)) {
    state.blocks.erase(block.handle);
    return false;
  }
  memory.block = &block;
  use_of(state, memory.device).reserve(bytes);
  return true;
}

void withdraw_pages(GraphMemory& memory) {
  if (memory.block == nullptr) return;
  use_of(memory.state, memory.device).reserved -= memory.block->bytes;
  release_block(memory.state, *std::exchange(memory.block, nullptr));
}

bool allocates(const GraphExec::Node& node) {
  return node.memory != nullptr && std::holds_alternative<ArriveWork>(node.work);
}

}  // namespace

GraphMemory::GraphMemory(State& state_, std::uint64_t start_, std::uint64_t bytes_, int device_,
                         Handle owner_)
    : state(state_), start(start_), bytes(bytes_), device(device_), owner(owner_) {
  state.graph_memories.by_start.emplace(start, this);
}

GraphMemory::~GraphMemory() {
  if (state.ending) return;
  withdraw_pages(*this);
  state.addresses.remove(start);
  state.addresses.arena.release(start, whole_granules(state, bytes));
  state.graph_memories.by_start.erase(start);
}

Range& GraphMemory::range() const {
  return *state.addresses.find_start(start);
}

void GraphMemoryUse::use(std::uint64_t bytes) {
  used += bytes;
  used_peak = std::max(used_peak, used);
}

void GraphMemoryUse::reserve(std::uint64_t bytes) {
  reserved += bytes;
  reserved_peak = std::max(reserved_peak, reserved);
}

std::shared_ptr<GraphMemory> make_graph_memory(State& state, Handle owner, int device,
                                               std::uint64_t bytes, DeviceSet readers,
                                               DeviceSet writers) {
  // Also: no overflow below.
  if (bytes > state.devices[static_cast<std::size_t>(device)].memory->bytes_total()) return nullptr;
  const auto start =
      state.addresses.arena.reserve(whole_granules(state, bytes), state.config.granularity);
  if (!start) return nullptr;
  state.addresses.add({.kind = RangeKind::graph_allocation,
                       .start = *start,
                       .bytes = bytes,
                       .device = device,
                       .readers = readers,
                       .writers = writers});
  return std::make_shared<GraphMemory>(state, *start, bytes, device, owner);
}

std::shared_ptr<GraphMemory> find_graph_memory(State& state, std::uint64_t start) {
  const auto found = state.graph_memories.by_start.find(start);
  return found == state.graph_memories.by_start.end() ? nullptr : found->second->shared_from_this();
}

bool claim_free(State& state, const Graph& graph, GraphMemory& memory) {
  const bool is_owner = graph.handle == memory.owner;
  if (memory.freed_by_owner || (is_owner && memory.freed_by_others)) return false;
  const bool has_one = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](CUgraphNode handle) {
    const GraphNode& node = *state.graph_nodes.find(reinterpret_cast<Handle>(handle));
    return node.memory.get() == &memory && std::holds_alternative<DepartWork>(node.work);
  });
  if (has_one) return false;
  (is_owner ? memory.freed_by_owner : memory.freed_by_others) = true;
  return true;
}

bool has_memory_nodes(State& state, const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](CUgraphNode node) {
    return state.graph_nodes.find(reinterpret_cast<Handle>(node))->memory != nullptr;
  });
}

bool may_launch(const GraphExec& exec) {
  std::map<const GraphMemory*, bool> allocated;
  for (const GraphExec::Node& node : exec.nodes) {
    if (node.memory == nullptr) continue;
    const bool is_left_over = allocates(node) && exec.frees_on_launch();
    bool& is_there =
        allocated.try_emplace(node.memory.get(), node.memory->is_allocated() && !is_left_over)
            .first->second;
    if (is_there == allocates(node)) return false;
    is_there = allocates(node);
  }
  return true;
}

bool provide_pages(State& state, const GraphExec& exec) {
  std::vector<GraphMemory*> provided;
  for (const GraphExec::Node& node : exec.nodes) {
    if (!allocates(node) || node.memory->block != nullptr) continue;
    if (!provide(*node.memory)) trim_graph_memory(state, node.memory->device);
    if (node.memory->block == nullptr && !provide(*node.memory)) {
      for (GraphMemory* memory : provided) withdraw_pages(*memory);
      return false;
    }
    provided.push_back(node.memory.get());
  }
  return true;
}

void free_left_over(State& state, const GraphExec& exec, Stream& stream) {
  for (const GraphExec::Node& node : exec.nodes) {
    if (!allocates(node) || !node.memory->is_allocated()) continue;
    const Submitted freed = submit_behind(state, stream, end_allocation(state, node.memory), {});
    note_free(state, node.memory, freed);
  }
}

Work begin_allocation(State& state, const std::shared_ptr<GraphMemory>& memory, Handle context) {
  Range& range = memory->range();
  range.block = memory->block;
  Range allocation = range;
  allocation.id = state.addresses.new_id();
  memory->allocation = std::make_shared<const Range>(allocation);
  memory->context = context;
  state.graph_memories.allocated.insert(memory);
  use_of(state, memory->device).use(memory->bytes);
  return ArriveWork{memory->allocation};
}

Work end_allocation(State& state, const std::shared_ptr<GraphMemory>& memory) {
  use_of(state, memory->device).used -= memory->bytes;
  memory->range().block = nullptr;
  return DepartWork{std::exchange(memory->allocation, nullptr)};
}

void note_free(State& state, const std::shared_ptr<GraphMemory>& memory, Submitted freed) {
  memory->freed = freed;
  state.graph_memories.allocated.erase(memory);
  state.held_until.push_back({std::move(freed), {}, {memory}});
}

void trim_graph_memory(State& state, int device) {
  for (const auto& [start, memory] : state.graph_memories.by_start) {
    const bool is_idle = !memory->is_allocated() && state.scheduler.done(memory->freed.ticket);
    if (memory->device == device && is_idle) withdraw_pages(*memory);
  }
}

}  // namespace berth::sim
