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

/// Options of the HostAllocator.
struct HostAllocatorOptions {
  /// Maximum bytes in use, including freed blocks that await a stream; nullopt: no limit by berth.
  std::optional<std::size_t> bytes_reserved_max = std::nullopt;
};

/// The allocator of pageable host memory. It uses the process's malloc, and so any malloc that the
/// program is linked with or preloads. It caches nothing: bytes_reserved is the memory in use. A
/// freed block is returned to malloc immediately, or, if record_stream() or record_use() named
/// streams that use it, when their work is done. Blocks are ordered on no stream, as with
/// PinnedAllocator. Copies treat a block as pageable memory: a target of Copier::start() is written
/// until the transfer is over. To free it earlier, record the stream first. The Copier of the same
/// Runtime does not query the driver about a block. To pin a block, call
/// PinnedAllocator::register_memory() of any Runtime: after cuMemHostRegister() alone, the Copier
/// still treats the block as pageable memory, and may read it before earlier work of the stream has
/// written it.
///
/// It works without a driver, and, unlike the other allocators, in a child made by fork(): the
/// child has its own copy of the memory, which no stream uses, so blocks are freed immediately
/// there.
/// Threads  As Allocator.
class BERTH_API HostAllocator final : public Allocator {
 public:
  /// Alignment of every block: a cache line, and the widest vector of current processors.
  static constexpr std::size_t kAlignment = 64;

  HostAllocator(const DeviceRegistry& registry, HostAllocatorOptions options);
  /// Waits for the streams that freed blocks await.
  ~HostAllocator() override;

  /// Allocates memory with undefined content. 0 bytes gives an empty Allocation.
  ///
  /// Blocking  Frees blocks whose streams are done. Queries at most two blocks, unless memory is
  ///           short; then it waits for the others, too.
  /// Errors    OutOfMemory: the limit or malloc refuses, and no freed block awaits a stream. The
  ///           allocator is then unchanged.
  [[nodiscard]] Allocation allocate(std::size_t bytes) {
    return {*this, allocate_raw(bytes), bytes};
  }
  /// Like allocate(), but never throws.
  Result<Allocation> try_allocate(std::size_t bytes) noexcept;
  /// Like allocate(), but without an owner: free the block with deallocate(). null for 0 bytes.
  [[nodiscard]] void* allocate_raw(std::size_t bytes);
  /// Allocator::allocate_raw().
  /// Errors  InvalidArgument: the per-thread default stream, or a stream of another Runtime.
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream) override;

  /// Contracts of the functions of Allocator without a comment, here and below: Allocator.
  [[nodiscard]] Device device() const noexcept override { return Device::cpu(); }
  void deallocate(void* data) override;
  /// Errors  InvalidArgument: also the per-thread default stream, or a stream of another Runtime.
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  /// Waits for the work that freed blocks await, until at most `bytes_to_keep` bytes are in use.
  /// Blocks that await a stream of a failed device, or one that the driver refuses to mark, stay in
  /// use: this is reported, and is no error, because other devices may be sound.
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  /// Frees blocks whose streams are done, whatever their age.
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// The live block that contains `data`; nullopt if there is none.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data);
  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
