// SPDX-License-Identifier: Apache-2.0
// One allocation on its way down the ladder: the request, and what the rungs have learned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/stream.hpp"

#include "memory/heap/block.hpp"
#include "memory/thread/thread_cache.hpp"

namespace berth {

/// Threads  That of the call.
struct Request {
  std::size_t bytes;  ///< rounded
  std::size_t bytes_requested;
  OwnerId owner;  ///< kUnowned until the heap has been locked
  std::optional<StreamRef> stream;
  ThreadCache* cache;    ///< the calling thread's; null where it has none
  void* data = nullptr;  ///< once it is served
  /// What the last growth lacked to stay within the limit; 0: it was something else.
  std::size_t beyond_limit_bytes = 0;
  bool refused_by_driver = false;                  ///< the driver was asked for memory and had none
  std::optional<bool> is_captured = std::nullopt;  ///< nullopt: not asked yet
  // As of the last look at the heap: what is not there need not be asked about.
  bool has_other_streams = false;   ///< other streams' memory
  bool has_deferred_frees = false;  ///< deferred frees
  bool has_unowned = false;         ///< memory that is open to all
  bool skipped_all_idle = false;    ///< whether the streams are idle was not asked
  std::uint64_t changes_seen = 0;   ///< CachingAllocator::changes()
  /// Deferred frees up to then are waited for (BlockUses::now()); 0: all that there are at the next
  /// look.
  std::uint64_t deferred_by = 0;
  /// For the work of all streams, or the device. Other threads may free ever more behind work.
  int waits_for_all_left = 16;
  bool consolidates_first = false;  ///< the heap, before it is searched
  bool may_wait = true;         ///< for work of streams, other threads and the program's callback
  bool has_opened_own = false;  ///< its own idle memory to all
  bool has_progressed = true;   ///< since on_pressure was called last
  std::size_t give_backs = 0;   ///< steps that give_back() has gone through
};

}  // namespace berth
