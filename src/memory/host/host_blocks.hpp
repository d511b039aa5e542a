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
  /// None once the stream is gone: then the event says all.
  std::optional<StreamRef> stream;
  /// After the last work that uses the block. Null: that is still to come, or was captured, and is
  /// marked later; or, without a stream, can never be known.
  SharedEvent event;
};
using HostUses = std::vector<HostUse>;

/// Takes no lock and calls no driver, nor lets go of an event, which would: what holds events is
/// handed out.
/// Threads  One at a time.
class HostBlocks {
 public:
  using PendingId = std::uint64_t;
  struct Pending {
    void* data;
    std::size_t bytes;
    HostUses uses;
  };

  /// What a request takes. At most PTRDIFF_MAX bytes are requested.
  static std::size_t bytes_for(std::size_t bytes_requested);

  void add(void* data, std::size_t bytes_requested);
  [[nodiscard]] HostUses* find_uses(const void* data);
  /// A live block gets a use, from now on or until the free where it has no event: of one stream
  /// the later one counts. Hands out what it replaces.
  /// Errors  std::bad_alloc: nothing is changed.
  [[nodiscard]] HostUse add_use(void* data, HostUse use);
  /// A live block: its start, and the size that was requested.
  struct Found {
    void* data;
    std::size_t bytes;
  };
  /// The live block that contains `data`.
  [[nodiscard]] std::optional<Found> find(const void* data) const;
  /// The words for a pointer that is no live block.
  [[nodiscard]] std::string describe_foreign(const void* data, const char* action) const;

  /// Ends a live block, whose memory the caller gives back; its bytes.
  std::size_t remove(void* data);
  /// Ends a live block that streams use, and hands out its uses, which come back by swap_uses().
  /// Allocates nothing.
  std::pair<PendingId, HostUses> defer(void* data);
  /// The last that was deferred.
  [[nodiscard]] PendingId last_pending() const { return last_id_; }
  /// What stands behind `id` in the order of frees, or, at the end, the first; nullopt where there
  /// is nothing.
  [[nodiscard]] std::optional<std::pair<PendingId, HostUses>> next_pending(PendingId id) const;
  void swap_uses(PendingId id, HostUses& uses) { pending_.at(id).uses.swap(uses); }
  [[nodiscard]] bool has_pending(PendingId id) const { return pending_.contains(id); }
  /// Ends a block that awaited streams. The caller gives back its memory.
  Pending remove_pending(PendingId id);

  /// The stream is gone: of its uses that have an event, which says all, none is another stream's
  /// of that handle.
  void forget(StreamRef stream);
  /// Whether a use by `stream` has no event yet.
  [[nodiscard]] bool has_unmarked(StreamRef stream) const;
  /// Gives such uses `event`; their stream is gone. With null it is never known when they are over.
  void mark(StreamRef stream, const SharedEvent& event);
  /// Such uses are over.
  void drop(StreamRef stream);

  [[nodiscard]] const MemoryCounters& counters() const { return counters_; }
  [[nodiscard]] MemoryCounters& counters() { return counters_; }
  [[nodiscard]] MemorySnapshot snapshot() const;
  /// Stops the process where the counters are not what the blocks add up to.
  void validate() const;

 private:
  using PendingBlocks = std::map<PendingId, Pending>;
  struct Live {
    std::size_t bytes_requested;
    HostUses uses;
    PendingBlocks::node_type deferred;  ///< what defer() needs, once there are uses
  };

  template <class Visit>
  void for_each_uses(const Visit& visit);
  /// Of a block that is live no more.
  void count_free(std::size_t bytes_requested);
  void count_release(std::size_t bytes);
  void count_metadata();

  std::map<const void*, Live, std::less<>> live_;  ///< by address
  PendingBlocks pending_;
  PendingId last_id_ = 0;
  MemoryCounters counters_;
};

}  // namespace berth
