// SPDX-License-Identifier: Apache-2.0
#include "sim/linear_memory.hpp"

#include "base/arithmetic.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kSmallAlignment = 512;

Range allocation(const Context& context, std::uint64_t start, std::uint64_t bytes,
                 PhysicalBlock& block) {
  return {.kind = RangeKind::allocation,
          .start = start,
          .bytes = bytes,
          .context = context.handle,
          .device = context.device,
          .block = &block,
          .readers = device_bit(context.device),
          .writers = device_bit(context.device)};
}

PhysicalMemory& memory_of(State& state, int device) {
  return *state.devices[static_cast<std::size_t>(device)].memory;
}

/// `bytes`, a multiple of the granularity, with an address; null where one of the two is missing.
PhysicalBlock* make_block(State& state, int device, std::uint64_t bytes, std::uint64_t& start) {
  PhysicalMemory& memory = memory_of(state, device);
  if (bytes > memory.bytes_free()) return nullptr;
  const auto address = state.addresses.arena.reserve(bytes, state.config.granularity);
  if (!address) return nullptr;
  PhysicalBlock& block = state.blocks.create(device, bytes);
  if (memory.allocate(block)) {
    start = *address;
    return &block;
  }
  state.blocks.erase(block.handle);
  state.addresses.arena.release(*address, bytes);
  return nullptr;
}

void drop_block(State& state, PhysicalBlock& block, std::uint64_t start) {
  state.addresses.arena.release(start, block.bytes);
  release_block(state, block);
}

}  // namespace

std::uint64_t LinearMemory::allocate(State& state, const Context& context, std::uint64_t bytes) {
  return bytes > state.config.granularity / 2 ? allocate_whole(state, context, bytes)
                                              : allocate_packed(state, context, bytes);
}

std::uint64_t LinearMemory::allocate_whole(State& state, const Context& context,
                                           std::uint64_t bytes) {
  if (bytes > memory_of(state, context.device).bytes_free()) return 0;  // also: no overflow below
  std::uint64_t start = 0;
  PhysicalBlock* block =
      make_block(state, context.device, align_up(bytes, state.config.granularity), start);
  if (block == nullptr) return 0;
  state.addresses.add(allocation(context, start, bytes, *block));
  return start;
}

std::uint64_t LinearMemory::allocate_packed(State& state, const Context& context,
                                            std::uint64_t bytes) {
  const std::uint64_t padded = align_up(bytes, kSmallAlignment);
  for (const std::uint64_t start : open_) {
    Chunk& chunk = chunks_.at(start);
    const auto address = chunk.free.allocate(padded, kSmallAlignment);
    if (!address) continue;
    Range range = allocation(context, *address, bytes, *chunk.block);
    range.block_offset = *address - start;
    range.chunk = start;
    state.addresses.add(range);
    if (chunk.free.free_bytes() == 0) open_.erase(start);
    return *address;
  }
  std::uint64_t start = 0;
  PhysicalBlock* block = make_block(state, context.device, state.config.granularity, start);
  if (block == nullptr) return 0;
  chunks_.emplace(start, Chunk{block, ExtentAllocator(start, block->bytes)});
  open_.insert(start);
  return allocate_packed(state, context, bytes);
}

void LinearMemory::release(State& state, const Range& range) {
  PhysicalBlock& block = *range.block;
  const std::uint64_t start = range.start;
  const std::uint64_t chunk_start = range.chunk;
  const std::uint64_t padded = align_up(range.bytes, kSmallAlignment);
  state.addresses.remove(start);
  if (chunk_start == 0) {
    drop_block(state, block, start);
    return;
  }
  Chunk& chunk = chunks_.at(chunk_start);
  chunk.free.release(start, padded);
  open_.insert(chunk_start);
  if (chunk.free.free_bytes() != block.bytes) return;
  drop_block(state, block, chunk_start);
  open_.erase(chunk_start);
  chunks_.erase(chunk_start);
}

}  // namespace berth::sim
