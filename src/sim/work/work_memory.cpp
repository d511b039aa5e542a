// SPDX-License-Identifier: Apache-2.0
#include "sim/work/work_memory.hpp"

#include <algorithm>
#include <cstring>

#include "base/process_memory.hpp"
#include "sim/memory/host_memory.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Whether device or pinned memory can be touched. What a program registers it may unmap all the
/// same: hardware holds on to the pages, and here they are gone.
bool is_there(State& state, const Span& span, std::uint64_t address, std::size_t bytes) {
  if (span.kind == Span::Kind::device) return true;
  if (span.kind != Span::Kind::pinned) return false;
  return state.addresses.find_for_work(address)->kind != RangeKind::host_registration ||
         is_host_memory(reinterpret_cast<void*>(address), bytes);
}

}  // namespace

bool may_access(const Span& span, const Context& context, Access access) {
  if (span.kind == Span::Kind::pinned) return true;
  const bool is_copy = access == Access::copy_from || access == Access::copy_to;
  if (!span.closed) {
    const DeviceSet reached = context.peers | device_bit(context.device);
    return is_copy || (reached & device_bit(span.device)) != 0;
  }
  DeviceSet who = device_bit(context.device);
  if (is_copy) who |= device_bit(span.device);
  const bool reads = access == Access::copy_from || access == Access::read;
  return ((reads ? span.readers : span.writers) & who) != 0;
}

bool is_reachable(State& state, const Context& context, std::uint64_t address, std::size_t bytes,
                  Access access) {
  const Span span = state.addresses.span_for_work(address, bytes);
  return is_there(state, span, address, bytes) && may_access(span, context, access);
}

bool is_pageable_memory(std::uint64_t address, std::size_t bytes, Access access) {
  const auto* const data = reinterpret_cast<const void*>(address);
  return is_host_memory(data, bytes) && (access != Access::copy_to || are_writable(data, bytes));
}

bool is_host_memory_mapped(State& state, std::uint64_t address, std::size_t bytes, Access access) {
  const Span::Kind kind = state.addresses.span(address, bytes).kind;
  if (kind != Span::Kind::pageable) return kind == Span::Kind::pinned;
  return is_pageable_memory(address, bytes, access);
}

std::byte* locate(State& state, const Context& context, std::uint64_t address, std::size_t bytes,
                  Access access) {
  if (!is_reachable(state, context, address, bytes, access)) return nullptr;
  const bool writes = access == Access::copy_to || access == Access::write;
  const auto use = writes ? MemoryWalk::Use::write : MemoryWalk::Use::read;
  return MemoryWalk(state, use, address).next(bytes).data();
}

bool read(State& state, std::uint64_t address, std::span<std::byte> out) {
  const Span span = state.addresses.span_for_work(address, out.size());
  if (!is_there(state, span, address, out.size())) return false;
  MemoryWalk from(state, MemoryWalk::Use::read, address);
  while (!out.empty()) {
    const std::span<std::byte> stretch = from.next(out.size());
    std::memcpy(out.data(), stretch.data(), stretch.size());
    out = out.subspan(stretch.size());
  }
  return true;
}

void write(State& state, std::uint64_t address, std::span<const std::byte> content) {
  MemoryWalk to(state, MemoryWalk::Use::write, address);
  while (!content.empty()) {
    const std::span<std::byte> stretch = to.next(content.size());
    std::memcpy(stretch.data(), content.data(), stretch.size());
    content = content.subspan(stretch.size());
  }
}

std::span<std::byte> bytes_of(State& state, const Range& range, std::uint64_t offset) {
  const std::uint64_t left = range.bytes - offset;
  if (range.is_host()) return {reinterpret_cast<std::byte*>(range.start + offset), left};
  const PhysicalMemory& memory = *state.devices[static_cast<std::size_t>(range.device)].memory;
  const auto there = memory.bytes_at(*range.block, range.block_offset + offset);
  return there.first(std::min<std::uint64_t>(left, there.size()));
}

std::uint64_t mapping_of(const Range& range, std::uint64_t offset,
                         std::span<const std::byte> stretch) {
  if (range.is_host()) return 0;
  return range.start + offset - reinterpret_cast<std::uint64_t>(stretch.data());
}

std::span<std::byte> MemoryWalk::next(std::size_t bytes) {
  std::span<std::byte> there{reinterpret_cast<std::byte*>(at_), bytes};
  if (!raw_) {
    const Range& range = *state_.addresses.find_for_work(at_);
    if (use_ == Use::write && !range.is_host()) range.block->written = true;
    there = bytes_of(state_, range, at_ - range.start);
    mapping_ = mapping_of(range, at_ - range.start, there);
  }
  const std::span<std::byte> stretch = there.first(std::min(bytes, there.size()));
  at_ += stretch.size();
  return stretch;
}

}  // namespace berth::sim
