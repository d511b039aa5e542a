// SPDX-License-Identifier: Apache-2.0
// The bytes of one device: a memfd, mapped as a whole at first use. Sparse: a byte that was never
// written costs nothing, and what is freed goes back to the system at once. What must hold: blocks
// overlap only where they share memory, and bytes_used() counts each byte once. Guarded by
// sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/handle_table.hpp"
#include "sim/memory/extent_allocator.hpp"
#include "sim/memory/shared_memory.hpp"

namespace berth::sim {

/// What cuMemCreate makes, or what backs a cuMemAlloc: whole granules of one device, contiguous in
/// its own numbering, wherever they lie in the device.
struct PhysicalBlock {
  PhysicalBlock(Handle handle_, int device_, std::uint64_t bytes_)
      : handle(handle_), device(device_), bytes(bytes_) {}

  struct Piece {
    std::uint64_t block_offset;
    std::uint64_t device_offset;
    std::uint64_t bytes;
  };

  /// The piece that holds the byte at `offset`, which is below `bytes`.
  [[nodiscard]] const Piece& piece_at(std::uint64_t offset) const;

  Handle handle;
  int device;  ///< slot
  std::uint64_t bytes;
  std::vector<Piece> pieces;  ///< in order of block_offset
  /// Where other processes may have it too; it has no pieces then.
  std::shared_ptr<SharedMemory> shared = nullptr;
  int references = 0;    ///< of handles that calls gave, not yet released
  bool written = false;  ///< otherwise there is nothing to give back to the system
  int mappings = 0;
};

using PhysicalBlocks = HandleTable<PhysicalBlock, HandleKind::physical_block>;

class PhysicalMemory {
 public:
  /// Makes nothing yet.
  PhysicalMemory(std::uint64_t bytes, std::uint64_t granularity, bool poison);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  /// Fills `block.pieces`. `block.bytes` is a multiple of the granularity. False where the device,
  /// its limit, or the system has no room.
  bool allocate(PhysicalBlock& block);
  /// The same, of the device `uuid`, for other processes to have too.
  bool allocate_shared(PhysicalBlock& block, const Uuid& uuid);
  /// Makes `block` refer to what another handle, perhaps of another process, refers to. The bytes
  /// count once a process, and there is always room: they are there already. False where the system
  /// has no room.
  bool adopt(PhysicalBlock& block, std::shared_ptr<SharedMemory> shared);
  /// Shared memory that was made here counts until no process has it.
  void release(PhysicalBlock& block);

  /// Where the simulator reads and writes the byte at `offset` of an allocated block, and those
  /// that follow it in place.
  [[nodiscard]] std::span<std::byte> bytes_at(const PhysicalBlock& block,
                                              std::uint64_t offset) const;

  [[nodiscard]] std::uint64_t bytes_total() const { return bytes_total_; }
  [[nodiscard]] std::uint64_t bytes_used() const;
  [[nodiscard]] std::uint64_t bytes_free() const;
  /// From now on as if others used the rest. What is allocated stays.
  void set_limit(std::uint64_t bytes) { limit_ = bytes; }

 private:
  bool open();
  void poison(const PhysicalBlock& block) const;
  void release_shared(std::shared_ptr<SharedMemory> shared);

  std::uint64_t bytes_total_;
  std::uint64_t granularity_;
  bool poison_;
  std::uint64_t limit_;
  std::uint64_t bytes_in_extents_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> shared_;  // each once; some only others have
  ExtentAllocator extents_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace berth::sim
