// SPDX-License-Identifier: Apache-2.0
// The state of a MemoryConnection, for both directions: the blocks that this process has shared,
// and those that the other process has shared. One lock guards it. The lock is held during the
// driver calls that export and import segments, and never while blocks are freed or while the other
// process is awaited.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/memory_connection.hpp"

#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "pool/device_pool.hpp"
#include "share/imported_segment.hpp"
#include "share/memory_messages.hpp"

namespace berth {

/// A segment of the other process, which keeps the connection open.
/// Threads  Immutable.
class SharedBlock::Segment {
 public:
  Segment(std::shared_ptr<MemoryConnection::Impl> connection, DeviceContext& context,
          Descriptor descriptor, std::size_t bytes)
      : connection_(std::move(connection)), memory_(context, std::move(descriptor), bytes) {}

  [[nodiscard]] const std::shared_ptr<MemoryConnection::Impl>& connection() const {
    return connection_;
  }
  [[nodiscard]] const ImportedSegment& memory() const { return memory_; }

 private:
  const std::shared_ptr<MemoryConnection::Impl> connection_;
  const ImportedSegment memory_;
};

/// Threads  Safe from any thread.
class BERTH_HIDDEN MemoryConnection::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Impl(const DeviceRegistry& registry, int socket);
  /// Each block of the other process has been returned, or was never received.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Contracts of these: MemoryConnection.
  void share(DevicePool& pool, std::span<Allocation> blocks, Time deadline) BERTH_EXCLUDES(mutex_);
  std::size_t reclaim() BERTH_EXCLUDES(mutex_);
  std::vector<SharedBlock> receive(Time deadline) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t blocks_shared() const BERTH_EXCLUDES(mutex_);
  [[nodiscard]] bool is_open() const BERTH_EXCLUDES(mutex_);

  /// Returns an imported block to the other process.
  void give_back(std::uint64_t number) noexcept BERTH_EXCLUDES(mutex_);
  /// Frees the blocks that this process has shared, and wakes the threads that wait.
  void end() noexcept BERTH_EXCLUDES(mutex_);
  /// False in a forked child.
  [[nodiscard]] bool is_here() const { return origin_.is_here(); }

 private:
  using Blocks = std::map<std::uint64_t, Allocation>;

  [[nodiscard]] ShareMessage pack(const DevicePool& pool,
                                  std::span<const MemoryProperties> properties,
                                  std::span<const Allocation> blocks) BERTH_REQUIRES(mutex_);
  /// Shares the first blocks, as many as one message holds. Returns their number; 0 if the queue of
  /// the other process is full.
  std::size_t share_some(const DevicePool& pool, std::span<const MemoryProperties> properties,
                         std::span<Allocation> blocks) BERTH_REQUIRES(mutex_);
  /// Reads all messages that have arrived, and sends releases.
  void pump() BERTH_REQUIRES(mutex_);
  void enter(Message message) BERTH_REQUIRES(mutex_);
  void send_releases() BERTH_REQUIRES(mutex_);
  /// Adds a block of the other process to those to be returned. Cannot fail.
  void add_release(std::uint64_t number) noexcept BERTH_REQUIRES(mutex_);
  /// Appends the blocks of all messages that have arrived.
  void import_arrived(std::vector<SharedBlock>& blocks) BERTH_REQUIRES(mutex_);
  /// Appends the blocks of one message. If it throws, nothing has changed.
  void import(ShareMessage& message, std::vector<SharedBlock>& blocks) BERTH_REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<SharedBlock::Segment> segment_of(const SegmentRecord& record,
                                                                 Descriptor& descriptor,
                                                                 DeviceContext& context)
      BERTH_REQUIRES(mutex_);
  [[nodiscard]] Device device_of(const std::string& uuid) const;

  const DeviceRegistry& registry_;
  const ForkOrigin origin_;
  const Descriptor ended_;  ///< an eventfd that is readable once this process has ended its use
  mutable Mutex mutex_;
  MessageSocket socket_ BERTH_GUARDED_BY(mutex_);
  bool is_ended_ BERTH_GUARDED_BY(mutex_) = false;

  // Blocks of this process, by number.
  Blocks shared_ BERTH_GUARDED_BY(mutex_);    ///< the other process has them
  Blocks returned_ BERTH_GUARDED_BY(mutex_);  ///< to be freed
  std::uint64_t next_number_ BERTH_GUARDED_BY(mutex_) = 1;
  const Driver* driver_ BERTH_GUARDED_BY(mutex_) = nullptr;  ///< of the blocks; null: none yet

  // Blocks of the other process.
  std::deque<ShareMessage> arrived_ BERTH_GUARDED_BY(mutex_);
  /// By SegmentRecord::address, which is unique while a block of the segment is here.
  std::map<std::uint64_t, std::weak_ptr<SharedBlock::Segment>> segments_ BERTH_GUARDED_BY(mutex_);
  /// In `arrived_`, and those of SharedBlocks.
  std::size_t blocks_here_ BERTH_GUARDED_BY(mutex_) = 0;
  /// Blocks to be returned. Has room for all that are here, because give_back() cannot fail.
  std::vector<std::uint64_t> releases_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
