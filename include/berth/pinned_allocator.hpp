// SPDX-License-Identifier: Apache-2.0
// The caching allocator of page-locked host memory: what GPUs copy from and to at full speed.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "berth/allocator.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

class CachingAllocator;
class DeviceRegistry;

struct PinnedAllocatorOptions {
  /// Bytes that may be pinned at most; nullopt: no limit of berth's own.
  std::optional<std::size_t> reserved_bytes_max = std::nullopt;
  /// Requests below half of this share segments of this size; others get one of their own, of the
  /// size asked, rounded up to 4 KiB pages and to nothing coarser. At least 64 KiB.
  std::size_t segment_bytes = std::size_t{16} << 20;
};

/// Pinned memory is ordered on no stream: a freed block is reusable at once, unless record_stream()
/// or record_use() named streams that use it. Whoever starts an asynchronous copy from or to a block
/// records the stream; Copier does it by itself.
class BERTH_API PinnedAllocator final : public Allocator {
 public:
  PinnedAllocator(const DeviceRegistry& registry, PinnedAllocatorOptions options);
  ~PinnedAllocator() override;

  /// Page-locked host memory, visible to every device. 0 bytes gives an empty Allocation.
  ///
  /// Blocking  A cached block: no driver call. Otherwise pinning, at 1 to 10 GB/s, may stall other
  ///           driver calls of the machine.
  /// Errors    NotSupported: there are no CUDA devices. OutOfMemory. DriverError.
  [[nodiscard]] Allocation allocate(std::size_t bytes) {
    return {*this, allocate_raw(bytes), bytes};
  }
  Result<Allocation> try_allocate(std::size_t bytes) noexcept;
  [[nodiscard]] void* allocate_raw(std::size_t bytes);

  void deallocate(void* data) override;
  /// Errors  InvalidArgument: also the per-thread default stream.
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// The live block that `data` points into, at its start or inside; null where there is none.
  [[nodiscard]] void* find_block(const void* data) const noexcept;

  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

 private:
  class Impl;
  CachingAllocator& require_device() const;

  std::unique_ptr<Impl> impl_;  ///< null where there are no CUDA devices
};

}  // namespace berth
