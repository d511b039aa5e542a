// SPDX-License-Identifier: Apache-2.0
// The records of the host allocator: live blocks, blocks that await streams, and the counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/memory_snapshot.hpp"
#include "berth/stream.hpp"

#include "memory/order/recorded_event.hpp"

namespace berth {

/// In errors, reports and snapshots.
inline constexpr const char* kHostAllocatorName = "cpu";

/// A stream's use of a block.
struct HostUse {
  /// nullopt once the stream has ended: then the event covers the use.
  std::optional<StreamRef> stream;
  /// An event behind the last work that uses the block. Null: recorded later, because that work is
  /// not submitted or was captured; without a stream: never known.
  SharedEvent event;
};
using HostUses = std::vector<HostUse>;

/// Takes no lock and makes no driver call. It also returns events instead of destroying them,
/// because that would call the driver.
/// Threads  One at a time.
class HostBlocks {
 public:
  using PendingId = std::uint64_t;
  struct Pending {
    void* data;
    std::size_t bytes;
    HostUses uses;
  };

  /// The bytes that a request of at most PTRDIFF_MAX takes.
  static std::size_t bytes_for(std::size_t bytes_requested);

  void add(void* data, std::size_t bytes_requested);
  [[nodiscard]] HostUses* find_uses(const void* data);
  /// Adds a use to a live block; without an event it lasts until the free. Replaces and returns an
  /// earlier use of the same stream.
  /// Errors  std::bad_alloc: nothing is changed.
  [[nodiscard]] HostUse add_use(void* data, HostUse use);
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
  /// Ends a live block that streams use. Returns its uses, which swap_uses() puts back. Allocates
  /// no memory.
  std::pair<PendingId, HostUses> defer(void* data);
  /// The last deferred block.
  [[nodiscard]] PendingId last_pending() const { return last_id_; }
  /// The pending block after `id` in the order of frees, or the first after the last; nullopt if
  /// there is none.
  [[nodiscard]] std::optional<std::pair<PendingId, HostUses>> next_pending(PendingId id) const;
  void swap_uses(PendingId id, HostUses& uses) { pending_.at(id).uses.swap(uses); }
  [[nodiscard]] bool has_pending(PendingId id) const { return pending_.contains(id); }
  /// Ends a pending block. The caller frees its memory.
  Pending remove_pending(PendingId id);

  /// The stream has ended: its uses that have an event no longer refer to its handle.
  void forget(StreamRef stream);
  /// Whether a use by `stream` has no event yet.
  [[nodiscard]] bool has_unmarked(StreamRef stream) const;
  /// Gives such uses `event`; their stream has ended. Null: the end of the uses is never known.
  void mark(StreamRef stream, const SharedEvent& event);
  /// Drops such uses.
  void drop(StreamRef stream);

  [[nodiscard]] const MemoryCounters& counters() const { return counters_; }
  [[nodiscard]] MemoryCounters& counters() { return counters_; }
  [[nodiscard]] MemorySnapshot snapshot() const;
  /// Stops the process if the counters and the blocks differ.
  void validate() const;

 private:
  using PendingBlocks = std::map<PendingId, Pending>;
  struct Live {
    std::size_t bytes_requested;
    HostUses uses;
    PendingBlocks::node_type deferred;  ///< storage that defer() needs, once there are uses
  };

  template <class Visit>
  void for_each_uses(const Visit& visit);
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
