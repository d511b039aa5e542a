// SPDX-License-Identifier: Apache-2.0
// One thread's cache of one allocator: a FrontCache for each stream that it works with, and a
// ledger. An allocation or a free that the cache serves makes no driver call and no heap call, and
// accesses no memory that other threads share.
//
// The thread enters through a BiasedLock, which costs it next to nothing. Other threads enter only
// through a ThreadCaches::ExclusiveAccess. Under the allocator's lock no other thread can be
// inside, so the owner needs no entry then.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/allocator.hpp"

#include "base/biased_lock.hpp"
#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"
#include "base/per_thread.hpp"
#include "heap/pointer_map.hpp"
#include "memory/thread/front_cache.hpp"
#include "memory/thread/ledger.hpp"

namespace berth {

/// The handle by which callers name a stream.
using StreamKey = std::uintptr_t;
/// The route of memory that no stream orders.
inline constexpr StreamKey kNoStream = ~StreamKey{0};
/// No stream in particular.
inline constexpr StreamKey kAnyStream = ~StreamKey{1};

/// Threads  Its owner thread. Others with ExclusiveAccess, where a function says so.
class ThreadCache {
 public:
  ThreadCache() = default;
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  /// By the owner thread. A cached block for `bytes`, ordered on `stream`, or null. Usually the
  /// block that was freed last, because programs free and allocate in turns.
  void* take(std::size_t bytes, StreamKey stream) {
    if (!lock_.try_enter()) [[unlikely]]
      return nullptr;
    if (!is_last_fit(bytes, stream)) [[unlikely]]
      return take_slow_and_leave(bytes, stream);
    void* const data = take_last(bytes);
    lock_.leave();
    return data;
  }
  /// By the owner thread. Frees a block that only its own stream uses, usually the block allocated
  /// last. False, and nothing is changed, if other streams use it, if it has no place here, if the
  /// cache should be flushed, if `data` is not in `blocks`, which other threads may change, or if a
  /// `user` is given that is not known to be the block's own stream.
  bool put(void* data, const PointerMap& blocks, StreamKey user = kAnyStream) {
    if (!lock_.try_enter()) [[unlikely]]
      return false;
    const bool is_last = data == last_.data && (user == kAnyStream || user == last_.stream) &&
                         is_last_unchanged(*last_.block);
    if (!is_last || should_flush()) [[unlikely]]
      return put_slow_and_leave(data, blocks, user);
    mark_cached(*last_.block);
    is_last_cached_ = true;
    lock_.leave();
    return true;
  }

  /// By the owner thread. Whether it has freed at least `bytes` more than it allocated since its
  /// ledger was applied.
  [[nodiscard]] bool has_freed(std::size_t bytes) {
    if (!lock_.try_enter()) return false;  // the ledger is about to be applied
    const std::int64_t change = ledger_.bytes_allocated.change();
    lock_.leave();
    return change < 0 && static_cast<std::size_t>(-change) >= bytes;
  }

  // The owner thread under the allocator's lock, or any in a ExclusiveAccess.

  /// The owner of the memory for requests on `stream`, if the thread has a route to it.
  [[nodiscard]] std::optional<OwnerId> owner_of(StreamKey stream) {
    const FrontCache* const front = front_of(stream);
    return front != nullptr ? std::optional(front->owner()) : std::nullopt;
  }
  /// From now on frees of memory of `owner` go to a FrontCache.
  /// Errors  std::bad_alloc, of this and the next: nothing is changed.
  FrontCache& add_owner(OwnerId owner);
  /// The same, and requests on `stream`, whose id is `owner`.
  void add_route(OwnerId owner, StreamKey stream);

  /// The cached blocks, to inspect and to flush. Use drop() to remove an owner.
  [[nodiscard]] FrontCaches& fronts() {
    push_last();
    return fronts_;
  }
  /// FrontCaches::drop(), for an owner whose handle may be reused by another stream.
  template <class Visit>
  void drop(OwnerId owner, const Visit& visit) {
    forget_routes(owner);
    fronts_.drop(owner, visit);
  }

  /// All owners. The thread caches nothing until its owners and routes are added again.
  template <class Visit>
  void drop_all(const Visit& visit) {
    push_last();
    recent_ = {};
    last_ = {};
    by_stream_ = {};
    by_owner_ = {};
    fronts_.flush(visit);
  }

  /// Whether the thread has freed so many more blocks than it allocated since set_blocks_live()
  /// that its cache should be flushed: other threads need them, or few blocks are left in use, so
  /// that the heap can coalesce.
  [[nodiscard]] bool should_flush() const {
    return ledger_.blocks_allocated.change() <= flush_limit_;
  }
  /// The number of live blocks of all threads. The ledger is empty.
  void set_blocks_live(std::uint64_t blocks) {
    if (blocks >= kManyBlocks) has_many_blocks_ = true;
    if (blocks == 0) has_many_blocks_ = false;
    std::uint64_t gain = has_many_blocks_ ? (blocks * 15 + 15) / 16 : kFlushBlocksMax;
    if (frees_more_than_allocates()) gain = kBatchBlocks;
    flush_limit_ =
        1 - static_cast<std::int64_t>(std::clamp<std::uint64_t>(gain, 1, kFlushBlocksMax));
  }

  /// Whether the thread has freed more blocks than it ever allocated.
  [[nodiscard]] bool frees_more_than_allocates() const { return ledger_.blocks_net < 0; }

  [[nodiscard]] std::size_t bytes_metadata() const {
    return sizeof(ThreadCache) + fronts_.count() * sizeof(FrontCache);
  }

  [[nodiscard]] Ledger& ledger() { return ledger_; }
  [[nodiscard]] BiasedLock& lock() { return lock_; }

 private:
  using Stack = FrontCache::Stack;

  static constexpr int kRouteBits = 5;
  static constexpr std::size_t kRoutes = std::size_t{1} << kRouteBits;
  static constexpr StreamKey kNoRoute = kAnyStream;
  static constexpr std::uint64_t kFlushBlocksMax = 4096;
  static constexpr std::uint64_t kManyBlocks = 64;
  static constexpr std::uint64_t kBatchBlocks = 64;

  struct Route {
    StreamKey stream = kNoRoute;
    FrontCache* front = nullptr;
  };
  /// The block that was allocated last is usually freed first, and allocated again without its
  /// stack. While the block is live, its record may change, because another thread may free it.
  struct Taken {
    void* data = &kNoBlock;  ///< at first no block
    Block* block = nullptr;
    std::size_t bytes = 0;
    StreamKey stream = kNoRoute;
    Stack* stack = nullptr;
    FrontCache* front = nullptr;
  };
  static inline char kNoBlock = 0;
  struct Place {
    FrontCache* front = nullptr;
    Stack* stack = nullptr;
  };

  static bool is_simple(const Block& block, const void* data) {
    return block.data() == data && block.state() == Block::State::allocated && block.uses.list == 0;
  }

  /// Whether `last_` is still the block that was allocated.
  [[nodiscard]] bool is_last_unchanged(const Block& block) const {
    return is_simple(block, last_.data) && block.owner == last_.front->owner() &&
           block.bytes == last_.bytes && last_.stack->bytes() == last_.bytes;
  }
  /// Whether `last_` is cached and fits the request.
  [[nodiscard]] bool is_last_fit(std::size_t bytes, StreamKey stream) const {
    return is_last_cached_ && stream == last_.stream && last_.bytes - bytes < kBlockAlignment;
  }
  void* take_last(std::size_t bytes) {
    const Taken last = last_;
    BERTH_DCHECK(last.block->state() == Block::State::cached && bytes <= last.bytes);
    last.block->set_state(Block::State::allocated);
    last.block->set_slack_bytes(last.bytes - bytes);
    ledger_.allocated(bytes, last.bytes);
    is_last_cached_ = false;
    return last.data;
  }
  void mark_cached(Block& block) {
    ledger_.freed(block.bytes - block.slack_bytes(), block.bytes);
    block.set_state(Block::State::cached);
  }
  /// Pushes `last_` on its stack, if it is cached. Before any other use of the stacks, because an
  /// empty stack may become that of another size.
  void push_last() {
    if (is_last_cached_) last_.front->push(*last_.stack, *last_.block);
    is_last_cached_ = false;
  }

  FrontCache* front_of(StreamKey stream) {
    if (stream != recent_.stream) [[unlikely]] {
      const Route& route = by_stream_[place_of(stream)];
      if (route.stream != stream) return nullptr;
      recent_ = route;
    }
    return recent_.front;
  }

  /// The place of a freed block; no stack if there is none.
  Place place_of(const Block& block) {
    FrontCache* const front = by_owner_[block.owner % kRoutes];
    if (front == nullptr || front->owner() != block.owner) return {};
    return {front, front->place(block.bytes)};
  }

  static std::size_t place_of(StreamKey stream) { return fibonacci_hash(stream, kRouteBits); }

  // After try_enter(). Not inline, and in tail position, so that the fast path saves no registers.
  [[gnu::noinline]] void* take_slow_and_leave(std::size_t bytes, StreamKey stream);
  [[gnu::noinline]] bool put_slow_and_leave(void* data, const PointerMap& blocks, StreamKey user);
  void* take_slow(std::size_t bytes, StreamKey stream);
  bool put_slow(void* data, const PointerMap& blocks, StreamKey user);

  void forget_routes(OwnerId owner);

  BiasedLock lock_;
  Ledger ledger_;
  Route recent_;  ///< that of the last request
  Taken last_;
  bool is_last_cached_ = false;  ///< `last_` is cached, and in no stack
  std::int64_t flush_limit_ = 1 - static_cast<std::int64_t>(kFlushBlocksMax);
  bool has_many_blocks_ = false;  ///< there were many live blocks since there were none
  std::array<Route, kRoutes> by_stream_{};
  std::array<FrontCache*, kRoutes> by_owner_{};
  FrontCaches fronts_;
};

/// The caches of one allocator, one for each thread that has used it.
using ThreadCaches = PerThread<ThreadCache>;

}  // namespace berth
