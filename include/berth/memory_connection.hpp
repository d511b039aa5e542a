// SPDX-License-Identifier: Apache-2.0
// Device memory shared with another process, over a local socket.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/device.hpp"
#include "berth/export.h"
#include "berth/memory_pool.hpp"

namespace berth {

class DeviceRegistry;

/// A block that another process has shared, mapped into this process. Its address is valid in this
/// process only. Returned to the other process on destruction. Movable; empty if
/// default-constructed or moved from.
///
/// Order     Work of the two processes is not ordered. Before the other process shares the block,
///           it waits for the work that writes it, or it also sends an interprocess event
///           (EventOptions::interprocess), for which a stream here waits.
/// Lifetime  Must be destroyed before the Runtime. Stays valid if the other process, or the
///           MemoryConnection, ends first.
/// Blocking  Destruction waits for all work of the device, because the other process may use the
///           memory again immediately.
/// Threads   One thread at a time.
/// Fork      In a child made by fork(), destruction has no effect.
class BERTH_API SharedBlock {
 public:
  SharedBlock() noexcept = default;
  ~SharedBlock() { reset(); }
  SharedBlock(SharedBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        device_(other.device_),
        number_(other.number_),
        segment_(std::move(other.segment_)) {}
  SharedBlock& operator=(SharedBlock&& other) noexcept;

  /// null if empty.
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// As requested from the allocator of the other process; 0 if empty.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The device of the memory, as this process numbers it; `cpu` if empty.
  [[nodiscard]] Device device() const noexcept {
    return data_ != nullptr ? device_ : Device::cpu();
  }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Returns the block now.
  void reset() noexcept;

 private:
  friend class MemoryConnection;
  class Segment;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_ = Device::cpu();
  std::uint64_t number_ = 0;
  std::shared_ptr<Segment> segment_;
};

/// A connection to another process, over which the two share blocks of contiguous pools
/// (MemoryPoolOptions::contiguous), in both directions. It needs no privilege: the descriptors of
/// physical memory travel over a local socket that the program has connected.
///
/// The connection owns the blocks that it has shared: it keeps each of them until the other process
/// has returned it, or has ended, also by a signal. reclaim() frees those blocks.
///
/// Share only with processes that you trust: the other process can read and write the whole segment
/// of each block that it gets. Its messages are checked; a malformed one ends the connection.
///
/// Blocking  Only share() and receive() wait, and only for the other process, up to their timeout.
/// Threads   Safe from any thread.
/// Fork      In a child made by fork(), every function but destruction throws NotSupported.
class BERTH_API MemoryConnection {
 public:
  /// Takes ownership of `socket`, a connected socket of the domain AF_UNIX and the type
  /// SOCK_SEQPACKET, such as one of socketpair() or accept(). `registry` must outlive the
  /// connection and its blocks. Runtime::connect_memory() creates one.
  /// Errors  InvalidArgument: another kind of descriptor. Exhausted: this process has no descriptor
  ///         left. The socket is not closed then.
  MemoryConnection(const DeviceRegistry& registry, int socket);
  /// Closes the connection, and frees the blocks that the other process has not returned, which is
  /// reported as a warning unless it has ended: it may still use them. Blocks that it has shared
  /// with this process stay valid.
  ~MemoryConnection();
  MemoryConnection(MemoryConnection&&) noexcept = default;
  MemoryConnection& operator=(MemoryConnection&&) = delete;

  /// Shares blocks of `pool`, which the connection owns from then on: the elements become empty.
  /// Waits up to `timeout` while the other process does not receive and its queue is full, which
  /// holds some thousand blocks.
  /// Errors  InvalidArgument: an empty block, or one of another pool; a pool that is not
  ///         contiguous. NotSupported: the device cannot export memory. Exhausted: the timeout, or
  ///         this process has no descriptor left; the message has their limit. FileError: the
  ///         connection has ended, or the system refuses. DriverError. Elements that are not empty
  ///         have not been shared, and still own their blocks.
  void share(MemoryPool& pool, std::span<Allocation> blocks,
             std::chrono::milliseconds timeout = std::chrono::seconds(10));
  void share(MemoryPool& pool, Allocation&& block,
             std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    share(pool, std::span(&block, 1), timeout);
  }
  /// Frees the blocks that the other process has returned, and all blocks if it has ended. Returns
  /// the number of blocks freed.
  std::size_t reclaim();
  /// Blocks that were shared and not freed.
  [[nodiscard]] std::size_t blocks_shared() const;

  /// Blocks that the other process has shared since the last call, in their order. Waits up to
  /// `timeout` for the first. An empty result: the timeout, or the connection has ended.
  /// Errors  NotSupported: the device of a block is not visible here, or cannot import.
  ///         OutOfMemory: no address space for it. Exhausted: this process has no descriptor left.
  ///         DriverError: the driver refuses the import. The blocks of that message are returned to
  ///         the other process, and the next call continues after them. FileError: a malformed
  ///         message, which ends the connection.
  [[nodiscard]] std::vector<SharedBlock> receive(
      std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  /// Whether both ends are open, as far as calls have noticed.
  [[nodiscard]] bool is_open() const;
  /// Closes the connection immediately, as the destructor does, and wakes the threads that wait in
  /// this connection: receive() returns nothing, and share() throws FileError, as do later calls.
  /// Repeated, and in a forked child: no effect.
  void end() noexcept;

 private:
  friend class SharedBlock;
  friend class SharedBlock::Segment;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace berth
