// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/host_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kHostPage = 4_KiB;
constexpr int kHostPoison = 0xA5;

/// Whether all of [start, end) is readable and writable. Reads the table of mappings, because
/// touching each page would allocate it.
bool is_writable_host_memory(std::uint64_t start, std::uint64_t end) {
  std::ifstream mappings("/proc/self/maps");
  std::uint64_t checked = start;
  for (std::string line; checked < end && std::getline(mappings, line);) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    char access[3] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %2c", &first, &last, access) != 3) break;
    if (last <= checked) continue;
    if (first > checked || std::strcmp(access, "rw") != 0) break;
    checked = last;
  }
  return checked >= end;
}

bool has_room(const State& state, std::size_t bytes) {
  return bytes <= state.config.host_memory - state.host_bytes_pinned;
}

Range pinned_range(RangeKind kind, const Context& context, std::uint64_t start, std::size_t bytes) {
  return {.kind = kind,
          .start = start,
          .bytes = bytes,
          .context = context.handle,
          .device = context.device,
          .readers = ~DeviceSet{0},
          .writers = ~DeviceSet{0}};
}

void* make_pages(State& state, RangeKind kind, const Context& context, std::size_t bytes,
                 unsigned flags) {
  if (!has_room(state, bytes)) return nullptr;
  void* pages = mmap(nullptr, align_up(bytes, kHostPage), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  if (state.config.poison) std::memset(pages, kHostPoison, std::min<std::size_t>(bytes, kHostPage));
  Range range = pinned_range(kind, context, reinterpret_cast<std::uint64_t>(pages), bytes);
  range.host_flags = flags;
  state.addresses.add(range).made_at = state.stacks.here();
  state.host_bytes_pinned += bytes;
  return pages;
}

}  // namespace

bool is_host_memory(const void* address, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (start < kHostPage || start + bytes < start) return false;
  const std::uint64_t first = align_down(start, kHostPage);
  // A flush without effect, which reports a missing page.
  return msync(reinterpret_cast<void*>(first), start + bytes - first, MS_ASYNC) == 0 ||
         errno != ENOMEM;
}

void* make_pinned_host_memory(State& state, const Context& context, std::size_t bytes,
                              unsigned flags) {
  return make_pages(state, RangeKind::host_allocation, context, bytes, flags);
}

void* make_managed_memory(State& state, const Context& context, std::size_t bytes) {
  return make_pages(state, RangeKind::managed, context, bytes, 0);
}

CUresult register_host_memory(State& state, const Context& context, void* address,
                              std::size_t bytes) {
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (bytes == 0 || !is_host_memory(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_writable_host_memory(start, start + bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes >= state.config.registration_limit) return CUDA_ERROR_OUT_OF_MEMORY;
  if (state.addresses.arena.contains(start)) return CUDA_ERROR_INVALID_VALUE;
  if (state.addresses.overlaps(start, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (!has_room(state, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Range& made =
      state.addresses.add(pinned_range(RangeKind::host_registration, context, start, bytes));
  made.made_at = state.stacks.here();
  state.host_bytes_pinned += bytes;
  return CUDA_SUCCESS;
}

void unpin_host_memory(State& state, const Range& range) {
  state.host_bytes_pinned -= range.bytes;
  const bool ours = range.kind != RangeKind::host_registration;
  void* const pages = reinterpret_cast<void*>(range.start);
  const std::size_t bytes = align_up(range.bytes, kHostPage);
  state.races.forget({static_cast<std::byte*>(pages), bytes});
  if (range.kind == RangeKind::managed) state.advice.forget(range.start, range.bytes);
  state.ended_memory.note(state, range);
  state.addresses.remove(range.start);
  if (ours) munmap(pages, bytes);
}

}  // namespace berth::sim
