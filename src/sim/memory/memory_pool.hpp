// SPDX-License-Identifier: Apache-2.0
// A memory pool: segments of one device, split into allocations that are made and freed in stream
// order. Freed memory depends on its free until the host has observed the free. Invariant: free
// pieces and allocations tile the segments. Guarded by sim::mutex.
// Source: CUDA Programming Guide, "Stream Ordered Memory Allocator"; CUDA Driver API, "Stream
// Ordered Memory Allocator".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/memory/address_space.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct State;
struct Stream;

class MemoryPool {
 public:
  /// `bytes_max` limits reserved bytes; 0: limited only by the device.
  MemoryPool(Handle handle, int device, std::uint64_t bytes_max);

  struct Policy {
    bool follow_event_dependencies = true;
    bool allow_opportunistic = true;
    bool allow_internal_dependencies = true;
    std::uint64_t release_threshold = 0;
  };

  /// The location of an allocation, and the frees that precede it.
  struct Room {
    std::uint64_t start;
    PhysicalBlock* block;
    std::uint64_t block_offset;
    std::vector<Submitted> after;
  };

  /// Memory for the next operation of `stream`; nullopt if there is none. `bytes` is not 0.
  std::optional<Room> allocate(State& state, Stream& stream, std::uint64_t bytes);
  /// Frees `range`. `behind` is the free; without a ticket if the memory is already unused.
  void release(State& state, const Range& range, Submitted behind);

  /// The next time that the host has waited, synchronize() may find something to do.
  void await_synchronization(State& state);
  /// The host has waited: memory above the release threshold is returned. False if the pool was
  /// destroyed, and is empty now.
  bool synchronize(State& state);
  /// Returns segments without allocations while at least `bytes_kept` remain. Only memory whose
  /// free the host has observed is returned.
  void trim(State& state, std::uint64_t bytes_kept);
  /// Whether there are frees that the host has not observed. The pool then awaits synchronization.
  [[nodiscard]] bool awaits_frees() const;

  [[nodiscard]] std::uint64_t bytes_used() const { return bytes_used_; }
  [[nodiscard]] std::uint64_t bytes_reserved() const { return bytes_reserved_; }
  [[nodiscard]] std::uint64_t bytes_used_peak() const { return bytes_used_peak_; }
  [[nodiscard]] std::uint64_t bytes_reserved_peak() const { return bytes_reserved_peak_; }
  void reset_used_peak() { bytes_used_peak_ = bytes_used_; }
  void reset_reserved_peak() { bytes_reserved_peak_ = bytes_reserved_; }

  const Handle handle;
  const int device;  ///< slot
  Policy policy;
  bool destroyed = false;  ///< destroyed by a call; exists while it has allocations
  DeviceSet readers;
  DeviceSet writers;

 private:
  /// The permitted reuse; each value includes the previous ones.
  enum class Reuse {
    in_order,       ///< freed on the same stream, or observed to be freed
    after_events,   ///< freed before the allocation, ordered by events
    opportunistic,  ///< freed already, without an order
    behind_waits,   ///< freed once the stream has waited
  };

  struct Piece {
    std::uint64_t bytes;
    std::uint64_t segment;  ///< its start
    Submitted behind;       ///< no ticket: the host has observed the free; the clock stays
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by start

  [[nodiscard]] bool may_reuse(State& state, const Stream& stream, const Piece& piece,
                               Reuse reuse) const;
  /// The start of the best fit among adjacent pieces that may be reused.
  std::optional<std::uint64_t> find(State& state, const Stream& stream, std::uint64_t bytes,
                                    Reuse reuse) const;
  Room take(const Stream& stream, std::uint64_t start, std::uint64_t bytes);
  bool grow(State& state, std::uint64_t bytes);
  /// The host has observed all completed work.
  void observe(State& state);
  /// Coalesces neighbors without a pending free.
  void coalesce();

  std::uint64_t bytes_max_;
  std::map<std::uint64_t, PhysicalBlock*> segments_;  // by start
  Pieces free_;
  std::uint64_t bytes_used_ = 0;
  std::uint64_t bytes_used_peak_ = 0;
  std::uint64_t bytes_reserved_ = 0;
  std::uint64_t bytes_reserved_peak_ = 0;
  bool awaits_synchronization_ = false;  ///< in State::pools_to_synchronize
};

using MemoryPools = HandleTable<MemoryPool, HandleKind::memory_pool>;

/// Called when the host has waited: pools return memory above their release thresholds, and empty
/// destroyed pools are removed.
void synchronize_pools(State& state);

}  // namespace berth::sim
