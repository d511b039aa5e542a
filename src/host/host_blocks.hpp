// SPDX-License-Identifier: Apache-2.0
// The records of the host allocator: live blocks, blocks that await streams, and the counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "berth/memory_snapshot.hpp"

#include "memory/order/stream_uses.hpp"

namespace berth {

/// In errors, reports and snapshots.
inline constexpr const char* kHostAllocatorName = "cpu";

/// Takes no lock and makes no driver call.
/// Threads  One at a time.
class HostBlocks {
 public:
  /// Ascends in the order of frees.
  using PendingId = std::uint64_t;
  struct Pending {
    void* data;
    std::size_t bytes;
    StreamUses::Memory uses;
  };

  /// The bytes that a request of at most PTRDIFF_MAX takes.
  static std::size_t bytes_for(std::size_t bytes_requested);

  void add(void* data, std::size_t bytes_requested, StreamUses::Memory uses);
  /// The uses of the live block that starts at `data`.
  [[nodiscard]] std::optional<StreamUses::Memory> find_uses(const void* data) const;
  /// Reserves what defer() needs.
  /// Errors  std::bad_alloc: nothing is changed.
  void prepare_defer(void* data);
  /// A live block: its start, and the size that was requested.
  struct Found {
    void* data;
    std::size_t bytes;
  };
  /// The live block that contains `data`.
  [[nodiscard]] std::optional<Found> find(const void* data) const;
  /// The message for a pointer that is not a live block.
  [[nodiscard]] std::string describe_foreign(const void* data, const char* action) const;

  /// Ends a live block, whose memory the caller frees. Returns its bytes.
  std::size_t remove(void* data);
  /// Ends a live block that streams use, after prepare_defer(). Allocates no memory.
  void defer(void* data);
  /// The last deferred block.
  [[nodiscard]] PendingId last_pending() const { return last_id_; }
  struct Next {
    PendingId id;
    StreamUses::Memory uses;
  };
  /// The pending block after `id` in the order of frees, or the first after the last; nullopt if
  /// there is none.
  [[nodiscard]] std::optional<Next> next_pending(PendingId id) const;
  /// Ends a pending block, whose memory the caller frees; nullopt if it has ended.
  std::optional<Pending> remove_pending(PendingId id);

  [[nodiscard]] const MemoryCounters& counters() const { return counters_; }
  [[nodiscard]] MemoryCounters& counters() { return counters_; }
  [[nodiscard]] MemorySnapshot snapshot() const;
  /// Stops the process if the counters and the blocks differ.
  void validate() const;

 private:
  using PendingBlocks = std::map<PendingId, Pending>;
  struct Live {
    std::size_t bytes_requested;
    StreamUses::Memory uses;
    PendingBlocks::node_type deferred = {};  ///< storage that defer() needs, once there are uses
  };

  /// Of a block that is no longer live.
  void count_free(std::size_t bytes_requested);
  void count_release(std::size_t bytes);
  void count_metadata();

  std::map<const void*, Live, std::less<>> live_;  ///< by address
  PendingBlocks pending_;
  PendingId last_id_ = 0;
  MemoryCounters counters_;
};

}  // namespace berth
