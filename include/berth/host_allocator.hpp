// SPDX-License-Identifier: Apache-2.0
// The allocator of `cpu`: ordinary, pageable host memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "berth/allocator.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

class DeviceRegistry;

struct HostAllocatorOptions {
  /// Bytes that may be in use at most, those that await a stream included; nullopt: no limit of
  /// berth's own.
  std::optional<std::size_t> bytes_max = std::nullopt;
};

/// Memory of the process's malloc, so that a malloc which a program is linked with, or preloads,
/// serves here as well. Nothing is cached: bytes_reserved is what is in use, and a freed block goes
/// back at once, or, where record_stream() or record_use() named streams that use it, once their work
/// is done. A block is ordered on no stream, as with PinnedAllocator. To a copy it is pageable memory as
/// any: the program records the stream before it frees a target of Copier::start() early, which is
/// written to until the transfer is over.
///
/// Works without a driver, and, unlike the other allocators, in a child made by fork(): the child has
/// its own copy of the memory, which no stream uses, so that blocks are freed at once there.
class BERTH_API HostAllocator final : public Allocator {
 public:
  /// Of every block: a cache line, and the widest vector of today's processors.
  static constexpr std::size_t kAlignment = 64;

  HostAllocator(const DeviceRegistry& registry, HostAllocatorOptions options);
  /// Waits for the streams that freed blocks await.
  ~HostAllocator() override;

  /// Memory whose content is undefined. 0 bytes gives an empty Allocation.
  ///
  /// Blocking  Frees what awaited streams that are done; asks about two blocks at most, unless memory
  ///           is short. Then it waits for the others, too.
  /// Errors    OutOfMemory: the limit or malloc refuses, with nothing left to wait for.
  [[nodiscard]] Allocation allocate(std::size_t bytes) {
    return {*this, allocate_raw(bytes), bytes};
  }
  Result<Allocation> try_allocate(std::size_t bytes) noexcept;
  [[nodiscard]] void* allocate_raw(std::size_t bytes);

  void deallocate(void* data) override;
  /// Errors  InvalidArgument: also the per-thread default stream.
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  /// Waits for the work that freed blocks await, until at most `bytes_to_keep` are in use.
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  /// Frees what awaited streams that are done, whatever its age.
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
