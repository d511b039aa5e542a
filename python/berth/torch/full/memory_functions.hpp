// SPDX-License-Identifier: Apache-2.0
// What libberth_torch.so offers to the allocator that berth.torch compiles for the installed
// PyTorch. Both sides include this file, and nothing else of each other.
//
// Threads  Every function from any thread.
// Errors   std::bad_alloc: memory is short. Other failures are exceptions derived from
//          std::exception. Nothing is changed then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

struct CUstream_st;

namespace berth::torch {

/// Changes whenever this file does; both sides must have the same.
inline constexpr int kMemoryFunctionsVersion = 2;

/// As PyTorch numbers pools. {0, 0}: no pool.
using PoolId = std::pair<unsigned long long, unsigned long long>;
using StreamFilter = std::function<bool(CUstream_st*)>;

struct Level {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;
};

/// Of a device: its own memory and all of its pools together. The peaks of several pools are added,
/// even if they were reached at different times.
struct DeviceCounters {
  Level bytes_requested;
  Level bytes_allocated;  ///< after rounding
  Level bytes_active;     ///< allocated, plus freed but awaiting an event
  Level bytes_reserved;
  Level blocks_allocated;
  Level blocks_pending;  ///< freed, and awaiting an event
  std::uint64_t segments_mapped = 0;
  std::uint64_t segments_released = 0;
  std::uint64_t out_of_memory = 0;
  std::uint64_t waits = 0;  ///< for a stream's work, when memory was short
  std::vector<std::pair<PoolId, Level>> pool_bytes_reserved;  ///< of each pool of PyTorch
};

struct Block {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;            ///< after rounding
  std::size_t bytes_requested = 0;  ///< 0 if free
  std::uintptr_t data = 0;          ///< the caller's address, unlike `address` if it is stitched
  bool is_allocated = false;
  bool is_pending = false;
};

/// A range of addresses, tiled by its blocks.
struct Segment {
  PoolId pool;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::vector<Block> blocks;
};

/// The live blocks of a pool at one moment.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
};

/// What restore() has done: the starts of blocks. One that is freed and allocated had another size.
struct Restored {
  std::vector<void*> freed;
  std::vector<void*> allocated;
  std::vector<void*> kept;  ///< live before and after
};

class MemoryFunctions {
 public:
  /// null for 0 bytes.
  virtual void* allocate(std::size_t bytes, int device, CUstream_st* stream) = 0;
  /// The device of the block is found by its address. null, or in a forked child: no effect.
  virtual void free(void* data) = 0;
  /// No effect if `data` is not memory of berth.
  virtual void record_stream(void* data, CUstream_st* stream) = 0;
  /// The start of the live block that contains `data`, and its size as requested. `bytes` may be
  /// null.
  virtual void* base(void* data, std::size_t* bytes) = 0;
  /// Returns cached memory of every device, and closes released pools. Waits for the GPU.
  virtual void trim() = 0;
  /// Limits reserved memory to a part of the device's, 0 to 1.
  virtual void limit(double fraction, int device) = 0;
  /// Lets work of `user` access memory of `owner`.
  virtual void enable_peer_access(int user, int owner) = 0;

  /// Creates the pool, or counts one more use of it.
  virtual void retain_pool(int device, PoolId id) = 0;
  /// The same, and routes requests to it on the streams that `filter` accepts, until end_pool().
  virtual void begin_pool(int device, PoolId id, StreamFilter filter) = 0;
  virtual void end_pool(int device, PoolId id) = 0;
  virtual void release_pool(int device, PoolId id) = 0;
  /// 0 if there is no such pool.
  virtual int pool_uses(int device, PoolId id) = 0;
  virtual std::shared_ptr<const Checkpoint> checkpoint(int device, PoolId id) = 0;
  /// Makes exactly those blocks of the pool live that were live at the checkpoint, which was taken
  /// of it.
  virtual Restored restore(int device, PoolId id, const Checkpoint& checkpoint) = 0;

  virtual DeviceCounters counters(int device) = 0;
  virtual void reset_peaks(int device) = 0;
  virtual std::size_t largest_free_block(int device) = 0;
  /// Of the device's own memory and of its pools; empty if the device has not been used.
  virtual std::vector<Segment> segments(int device) = 0;

 protected:
  ~MemoryFunctions() = default;
};

}  // namespace berth::torch
