// SPDX-License-Identifier: Apache-2.0
// Access to memory by running work. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/device/context.hpp"
#include "sim/memory/address_space.hpp"

namespace berth::sim {

struct State;

/// How work of a context uses memory. A copy is made by the copying device or by the owner of the
/// memory, and between devices without peer access through the host; other work needs access by its
/// own device.
enum class Access { copy_from, copy_to, read, write };

/// Whether work of `context` may use all of `span` in this way.
bool may_access(const Span& span, const Context& context, Access access);
/// Whether it currently may use all of [address, address + bytes), device or pinned memory, in this
/// way.
bool is_reachable(State& state, const Context& context, std::uint64_t address, std::size_t bytes,
                  Access access);
/// Whether a copy can use [address, address + bytes) of this process. Of memory to copy to, the
/// first and the last byte must be writable.
bool is_pageable_memory(std::uint64_t address, std::size_t bytes, Access access);
/// Whether pageable or pinned host memory still exists: a graph uses it long after the capturing
/// call.
bool is_host_memory_mapped(State& state, std::uint64_t address, std::size_t bytes, Access access);

/// The simulator's storage of the 4 or 8 aligned bytes at `address`; null if work of `context` must
/// not access them.
std::byte* locate(State& state, const Context& context, std::uint64_t address, std::size_t bytes,
                  Access access);
/// Reads device or pinned memory; false if part of it does not exist.
bool read(State& state, std::uint64_t address, std::span<std::byte> out);
/// Overwrites existing device or pinned memory.
void write(State& state, std::uint64_t address, std::span<const std::byte> content);

/// The storage of `range` from `offset`, up to the end of the contiguous part.
std::span<std::byte> bytes_of(State& state, const Range& range, std::uint64_t offset);

/// Identifies the mapping through which work accesses `stretch`, at `offset` in `range`: two
/// mappings of the same bytes have different values. 0 for host memory.
std::uint64_t mapping_of(const Range& range, std::uint64_t offset,
                         std::span<const std::byte> stretch);

/// Iterates over the storage of addresses that are known to be accessible.
class MemoryWalk {
 public:
  enum class Use { read, write };

  /// `raw`: host memory that is not in the address space.
  MemoryWalk(State& state, Use use, std::uint64_t address, bool raw = false)
      : state_(state), use_(use), at_(address), raw_(raw) {}

  /// The next stretch, of at most `bytes`.
  std::span<std::byte> next(std::size_t bytes);
  /// mapping_of() what next() gave last.
  [[nodiscard]] std::uint64_t mapping() const { return mapping_; }
  /// Goes back by `bytes` of what next() gave.
  void put_back(std::size_t bytes) { at_ -= bytes; }

 private:
  State& state_;
  Use use_;
  std::uint64_t at_;
  std::uint64_t mapping_ = 0;
  bool raw_;
};

}  // namespace berth::sim
