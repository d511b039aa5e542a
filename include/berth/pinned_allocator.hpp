// SPDX-License-Identifier: Apache-2.0
// The caching allocator of page-locked host memory: what GPUs copy from and to at full speed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "berth/allocator.hpp"
#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/export.h"
#include "berth/host_registration.hpp"

namespace berth {

class DeviceRegistry;
class PinnedHeaps;

struct PinnedAllocatorOptions {
  /// Bytes that may be pinned at most, whatever their kind and node; nullopt: no limit of berth's own.
  /// Where it is met, cached segments are given back before a request fails: those that were used
  /// longest ago, and only as many as it lacks. Memory of register_memory() does not count.
  std::optional<std::size_t> reserved_bytes_max = std::nullopt;
  /// Bytes that stay cached at most after a free; nullopt: no limit. A free that leaves more gives whole
  /// segments back, those that were used longest ago first, as far as no block in them is in use.
  /// At least low_water_bytes + segment_bytes, unless low_water_bytes is 0.
  std::optional<std::size_t> cached_bytes_max = std::nullopt;
  /// How much may be pinned beyond the most that was ever active, as a part of it, before growing gives
  /// cached segments back: 0.05 is 5 %. Where memory comes in ever other sizes this trades pinning for
  /// memory: segments of their own are then not split. nullopt: whatever is cached stays. 0 to 1.
  std::optional<double> slack_max = std::nullopt;
  /// Requests below half of this share segments of this size; others get one of their own, of the
  /// size asked, rounded up to 4 KiB pages and to nothing coarser; so does what would share where the
  /// limit has no room for more. 64 KiB to 1 GiB.
  std::size_t segment_bytes = std::size_t{16} << 20;
  /// Threads that touch a segment's pages at the same time before they are registered with the driver,
  /// which then has less to do under its lock; the caller's own is one of them. 0: the driver allocates
  /// (cuMemHostAlloc), and NUMA nodes play no part. At most 128.
  unsigned prefault_threads = 4;
  /// An allocation that leaves less than this free for reuse has a thread of the allocator's obtain a
  /// segment ahead, of what is lacking, at least segment_bytes and at most 1 GiB, until there is as
  /// much: later callers need not wait for the pinning. Blocks that threads keep for themselves do not
  /// count as free. 0: there is no such thread.
  std::size_t low_water_bytes = 0;
};

enum class PinnedKind : std::uint8_t {
  portable,
  /// Written past the processor's caches, which copies to a device gain a little from; reading it from
  /// the host is slow, by a factor of ten and more. For what the host writes and never reads.
  write_combined,
  registered,  ///< memory of the user's own: nothing to allocate
};

struct PinnedOptions {
  /// The device that the memory is to be near: its pages come from that device's NUMA node, as long
  /// as it has some. nullopt: the calling thread's current device. Without effect where the driver
  /// names no node, and on write-combined memory.
  std::optional<Device> near = std::nullopt;
  PinnedKind kind = PinnedKind::portable;
  /// Whether the call may wait for work of streams that uses freed blocks. false: OutOfMemory instead, where
  /// a limit or the system leaves no other memory. Pinning takes its time in either case.
  bool may_wait = true;
};

/// Pinned memory around an address.
struct PinnedRange {
  void* data;         ///< its start
  std::size_t bytes;  ///< as requested
  PinnedKind kind;
  std::optional<int> numa_node;  ///< that it was bound to; nullopt: to none
};

/// How pinned memory was obtained.
struct PinnedGrowthCounters {
  std::uint64_t segments_by_callers = 0;     ///< obtained while a caller waited
  std::uint64_t segments_in_background = 0;  ///< obtained ahead
  std::uint64_t failures_in_background = 0;  ///< tries of the thread that obtained nothing
  std::uint64_t segments_registered = 0;     ///< of both: berth's own pages, registered
  std::uint64_t segments_from_driver = 0;    ///< of both: allocated by the driver
};

/// Pinned memory is ordered on no stream: a freed block is reusable at once, unless record_stream()
/// or record_use() named streams that use it. Whoever starts an asynchronous copy from or to a block
/// records the stream; Copier does it by itself. A copy that is stuck holds back the blocks that it
/// uses, and no others.
///
/// Sizes     Blocks are rounded up to 512 bytes: less than 5 % from 10 KiB on. A block lies in one
///           registration, so that a copy of it is one piece of pinned memory to the driver.
/// Growth    Pages are mapped, huge where the system is willing, touched by several threads, and
///           registered. Where a step fails, where a device would see them at another address, and from
///           512 GiB in one piece on, the driver is asked to allocate instead.
/// Heaps     Memory of different NUMA nodes and kinds does not mix. Where all devices are near one node,
///           and so on most machines, there is one heap for each kind. Counters are the sums of the
///           heaps', and so their peaks may be higher than ever was in use at one time.
class BERTH_API PinnedAllocator final : public Allocator {
 public:
  /// Errors  InvalidArgument: an option out of range.
  PinnedAllocator(const DeviceRegistry& registry, PinnedAllocatorOptions options);
  ~PinnedAllocator() override;

  /// Page-locked host memory, visible to every device. 0 bytes gives an empty Allocation.
  ///
  /// Blocking  A cached block: no driver call; but where devices are near different nodes, a question to
  ///           the driver for the current one, unless `near` says it. Otherwise pinning, at 1 to
  ///           10 GB/s, which may stall other driver calls of the machine.
  /// Errors    InvalidArgument: no such device, or a kind that cannot be allocated. NotSupported: there
  ///           are no CUDA devices. OutOfMemory. DriverError.
  [[nodiscard]] Allocation allocate(std::size_t bytes) {
    return {*this, allocate_raw(bytes), bytes};
  }
  [[nodiscard]] Allocation allocate(std::size_t bytes, const PinnedOptions& options) {
    return {*this, allocate_raw(bytes, options), bytes};
  }
  Result<Allocation> try_allocate(std::size_t bytes) noexcept;
  Result<Allocation> try_allocate(std::size_t bytes, const PinnedOptions& options) noexcept;
  [[nodiscard]] void* allocate_raw(std::size_t bytes);
  [[nodiscard]] void* allocate_raw(std::size_t bytes, const PinnedOptions& options);

  void deallocate(void* data) override;
  /// Also for registered memory, and there with any pointer into it.
  /// Errors  InvalidArgument: also the per-thread default stream.
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// Pins memory of the caller's own, for as long as the registration is there: it may be copied from
  /// and to like a block, at its own address. The memory must stay until then. 0 bytes gives an empty
  /// registration.
  ///
  /// The driver pins the pages that the range touches. What it does where two registrations share a page
  /// is not documented: give whole pages, of 4 KiB here and up to 64 KiB on other machines, to be sure.
  /// Registering does not count for reserved_bytes_max.
  ///
  /// Blocking  Pinning, at 1 to 10 GB/s.
  /// Errors    InvalidArgument: null; a range that wraps around, is no memory of this process, or
  ///           touches pinned memory, berth's or another library's; 512 GiB or more, of which current
  ///           drivers make a failure of some later call. OutOfMemory. NotSupported: no CUDA devices, or
  ///           a driver that does not register such memory. DriverError.
  [[nodiscard]] HostRegistration register_memory(void* data, std::size_t bytes) {
    register_raw(data, bytes);
    return {*this, data, bytes};
  }
  Result<HostRegistration> try_register_memory(void* data, std::size_t bytes) noexcept;
  /// The same for whoever ends it by unregister().
  void register_raw(void* data, std::size_t bytes);
  /// Ends the registration that starts at `data`; null is no operation.
  /// Blocking  Waits for the work of streams that were recorded on it, and for no other by itself; the
  ///           driver's own call may wait for work of any.
  /// Errors    InvalidArgument: no registration starts there. DriverError: the driver refuses; the
  ///           memory is still pinned.
  void unregister(void* data);

  /// The start of the live block or registration that `data` points into, at its start or inside; null
  /// where there is none.
  [[nodiscard]] void* find_block(const void* data) const noexcept;
  /// Whether `data` points into memory that this allocator has pinned for blocks, live or not. No driver
  /// call.
  [[nodiscard]] bool owns(const void* data) const noexcept;
  /// The same as find_block() with all that is known of it.
  [[nodiscard]] std::optional<PinnedRange> find(const void* data) const;

  [[nodiscard]] MemoryCounters counters() const override;
  [[nodiscard]] PinnedGrowthCounters growth_counters() const;
  /// Bytes of the registrations there are, which no other counter counts.
  [[nodiscard]] std::size_t bytes_registered() const;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

  /// Waits until the background thread has done what allocations before this asked of it.
  /// Blocking  While it pins. No operation without low_water_bytes, and in a forked child.
  void finish_growth();

 private:
  friend class HostRegistration;

  PinnedHeaps& require_device() const;
  /// For destructors: what goes wrong is reported.
  void end_registration(void* data) noexcept;

  std::unique_ptr<PinnedHeaps> heaps_;  ///< null where there are no CUDA devices
};

}  // namespace berth
