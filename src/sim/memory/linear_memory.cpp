// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/linear_memory.hpp"

#include "base/arithmetic.hpp"
#include "sim/memory/device_segment.hpp"
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

PhysicalMemory& physical_memory_of(State& state, int device) {
  return *state.devices[static_cast<std::size_t>(device)].memory;
}

}  // namespace

std::uint64_t LinearMemory::allocate(State& state, const Context& context, std::uint64_t bytes) {
  return bytes > state.config.granularity / 2 ? allocate_whole(state, context, bytes)
                                              : allocate_packed(state, context, bytes);
}

std::uint64_t LinearMemory::allocate_whole(State& state, const Context& context,
                                           std::uint64_t bytes) {
  if (bytes > physical_memory_of(state, context.device).bytes_free())
    return 0;  // also: no overflow below
  const DeviceSegment segment =
      make_segment(state, context.device, align_up(bytes, state.config.granularity));
  if (segment.block == nullptr) return 0;
  Range& made = state.addresses.add(allocation(context, segment.start, bytes, *segment.block));
  made.made_at = state.stacks.here();
  return segment.start;
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
    state.addresses.add(range).made_at = state.stacks.here();
    if (chunk.free.free_bytes() == 0) open_.erase(start);
    return *address;
  }
  const DeviceSegment segment = make_segment(state, context.device, state.config.granularity);
  if (segment.block == nullptr) return 0;
  chunks_.emplace(segment.start,
                  Chunk{segment.block, ExtentAllocator(segment.start, segment.block->bytes)});
  open_.insert(segment.start);
  return allocate_packed(state, context, bytes);
}

void LinearMemory::release(State& state, const Range& range) {
  PhysicalBlock& block = *range.block;
  const std::uint64_t start = range.start;
  const std::uint64_t chunk_start = range.chunk;
  const std::uint64_t padded = align_up(range.bytes, kSmallAlignment);
  state.ended_memory.note(state, range);
  state.addresses.remove(start);
  if (chunk_start == 0) {
    drop_segment(state, {start, &block});
    return;
  }
  Chunk& chunk = chunks_.at(chunk_start);
  chunk.free.release(start, padded);
  open_.insert(chunk_start);
  if (chunk.free.free_bytes() != block.bytes) return;
  drop_segment(state, {chunk_start, &block});
  open_.erase(chunk_start);
  chunks_.erase(chunk_start);
}

}  // namespace berth::sim
