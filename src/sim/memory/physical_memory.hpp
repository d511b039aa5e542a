// SPDX-License-Identifier: Apache-2.0
// The bytes of one device: a sparse memfd, mapped as a whole at first use. Bytes that were never
// written use no memory, and freed bytes are returned to the system at once. Invariants: blocks
// overlap only if they share memory, and bytes_used() counts each byte once. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/handle_table.hpp"
#include "sim/memory/extent_allocator.hpp"
#include "sim/memory/shared_memory.hpp"

namespace berth::sim {

/// The memory of a cuMemCreate or cuMemAlloc: whole granules of one device, with contiguous
/// offsets, at arbitrary positions in the device.
struct PhysicalBlock {
  PhysicalBlock(Handle handle_, int device_, std::uint64_t bytes_)
      : handle(handle_), device(device_), bytes(bytes_) {}

  struct Piece {
    std::uint64_t block_offset;
    std::uint64_t device_offset;
    std::uint64_t bytes;
  };

  /// The piece that contains the byte at `offset`, which is below `bytes`.
  [[nodiscard]] const Piece& piece_at(std::uint64_t offset) const;

  Handle handle;
  int device;  ///< slot
  std::uint64_t bytes;
  std::vector<Piece> pieces;  ///< in order of block_offset
  /// Set if other processes may share it; it then has no pieces.
  std::shared_ptr<SharedMemory> shared = nullptr;
  unsigned handle_types = CU_MEM_HANDLE_TYPE_NONE;  ///< bits of CUmemAllocationHandleType
  bool rdma_capable = false;
  int references = 0;    ///< references of handles that calls returned
  bool written = false;  ///< if false, there is no memory to return to the system
  int mappings = 0;
};

using PhysicalBlocks = HandleTable<PhysicalBlock, HandleKind::physical_block>;

class PhysicalMemory {
 public:
  /// Allocates nothing yet.
  PhysicalMemory(std::uint64_t bytes, std::uint64_t granularity, bool poison);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  /// Sets `block.pieces`. `block.bytes` is a multiple of the granularity. False if the device, its
  /// limit, or the system is out of memory.
  bool allocate(PhysicalBlock& block);
  /// The same for memory of the device `uuid` that can be shared with other processes.
  bool allocate_shared(PhysicalBlock& block, const Uuid& uuid);
  /// Moves the content of an allocated block to memory that can be shared; `moved` is called with
  /// each contiguous part and where it is now. False, and nothing has changed, if the system is out
  /// of memory.
  using Moved = std::function<void(std::span<const std::byte> from, const std::byte* to)>;
  bool share(PhysicalBlock& block, const Uuid& uuid, const Moved& moved);
  /// Makes `block` refer to the memory of another handle, perhaps of another process. The bytes are
  /// counted once for each process, beyond any limit, because they exist already. False if the
  /// system is out of memory.
  bool adopt(PhysicalBlock& block, std::shared_ptr<SharedMemory> shared);
  /// Shared memory of this process is counted until no process uses it.
  void release(PhysicalBlock& block);

  /// The storage of an allocated block from `offset`, up to the end of the contiguous part.
  [[nodiscard]] std::span<std::byte> bytes_at(const PhysicalBlock& block,
                                              std::uint64_t offset) const;

  [[nodiscard]] std::uint64_t bytes_total() const { return bytes_total_; }
  [[nodiscard]] std::uint64_t bytes_used() const;
  [[nodiscard]] std::uint64_t bytes_free() const;
  /// Limits the memory as if other processes used the rest. Existing allocations stay.
  void set_limit(std::uint64_t bytes) { limit_ = bytes; }

 private:
  bool open();
  void poison(const PhysicalBlock& block) const;
  void release_pieces(PhysicalBlock& block);
  void release_shared(std::shared_ptr<SharedMemory> shared);
  /// Copies all bytes of [offset, offset + bytes) that were ever written.
  void copy_written(std::uint64_t offset, std::uint64_t bytes, std::byte* to) const;

  std::uint64_t bytes_total_;
  std::uint64_t granularity_;
  bool poison_;
  std::uint64_t limit_;
  std::uint64_t bytes_in_extents_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> shared_;  // each once, with or without a block here
  ExtentAllocator extents_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace berth::sim
