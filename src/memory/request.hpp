// SPDX-License-Identifier: Apache-2.0
// One allocation on the ladder: the request, and the state of the rungs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/stream.hpp"

#include "heap/block.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

/// Threads  Used only by the calling thread.
struct Request {
  /// A constructor, because GCC clears an aggregate of this size by a slow string instruction.
  Request(std::size_t rounded, std::size_t requested, std::optional<StreamRef> ordered_on,
          ThreadCache* of_thread)
      : bytes(rounded), bytes_requested(requested), stream(ordered_on), cache(of_thread) {}

  std::size_t bytes;  ///< rounded
  std::size_t bytes_requested;
  OwnerId owner = kUnowned;  ///< until the heap has been locked
  std::optional<StreamRef> stream;
  ThreadCache* cache;    ///< the calling thread's; null if it has none
  void* data = nullptr;  ///< set when the request is served
  /// Bytes by which the last growth would have exceeded the limit; 0 if it failed for another
  /// reason.
  std::size_t beyond_limit_bytes = 0;
  bool refused_by_driver = false;                  ///< the driver had no memory
  std::optional<bool> is_captured = std::nullopt;  ///< nullopt: not queried
  // As of the last search of the heap: rungs skip memory that does not exist.
  bool has_other_streams = false;   ///< other streams' memory
  bool has_deferred_frees = false;  ///< deferred frees
  bool has_unowned = false;         ///< unowned memory
  bool skipped_all_idle = false;    ///< disown_all_idle() made no query
  std::uint64_t changes_seen = 0;   ///< CachingAllocator::changes()
  /// The request waits for frees deferred up to this time (BlockUses::now()); 0: not set.
  std::uint64_t deferred_by = 0;
  /// Remaining waits for all streams or the device, bounded because other threads may keep freeing
  /// behind work.
  int waits_for_all_left = 16;
  bool consolidates_first = false;  ///< the heap, before it is searched
  bool may_wait = true;             ///< for streams, other threads and the program's callback
  bool has_progressed = true;       ///< since on_pressure was called last
  std::size_t give_backs = 0;       ///< completed steps of give_back()
};

}  // namespace berth
