// SPDX-License-Identifier: Apache-2.0
// The caching allocator of page-locked host memory, which GPUs copy from and to at full speed.
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

/// Options of the PinnedAllocator.
struct PinnedAllocatorOptions {
  /// Maximum bytes pinned, of all kinds and nodes; nullopt: no limit by berth. At the limit, cached
  /// segments are returned before a request fails: the least recently used ones, and only as many
  /// as the request lacks. Memory of register_memory() does not count.
  std::optional<std::size_t> bytes_reserved_max = std::nullopt;
  /// Maximum bytes that stay cached; nullopt: no limit. After a free that leaves more, a thread of
  /// the allocator returns whole segments, least recently used first, unless a block in them is in
  /// use. The thread that frees does not wait for that, because the driver may wait for all pending
  /// work of the devices. At least low_water_bytes + segment_bytes, unless low_water_bytes is 0.
  std::optional<std::size_t> bytes_cached_max = std::nullopt;
  /// The part by which pinned memory may exceed its peak of active bytes before growth returns
  /// cached segments; 0.05 is 5 %. For programs whose sizes keep changing, this trades more
  /// pinning for less memory: segments of a single request are then not split. nullopt: cached
  /// memory stays. 0 to 1.
  std::optional<double> slack_max = std::nullopt;
  /// Requests below half of this size share segments of this size. Others get a segment of the
  /// requested size, rounded up only to 4 KiB pages. So do smaller requests if the limit, the
  /// driver or the system has no room for a shared segment. 64 KiB to 1 GiB.
  std::size_t segment_bytes = std::size_t{16} << 20;
  /// Number of threads that touch a segment's pages in parallel before they are registered with the
  /// driver, including the caller's. The driver then holds its lock for less time. 0: the driver
  /// allocates (cuMemHostAlloc), and NUMA nodes are ignored. At most 128.
  unsigned prefault_threads = 4;
  /// If an allocation leaves less than this free for reuse, a thread of the allocator obtains
  /// segments ahead of need, so that later callers do not wait for the pinning. Each segment has
  /// the missing size, at least segment_bytes and at most 1 GiB. Blocks in thread caches do not
  /// count as free. 0: there is no such thread.
  std::size_t low_water_bytes = 0;
};

/// The kind of pinned memory.
enum class PinnedKind : std::uint8_t {
  portable,
  /// Written without the processor's caches, which makes copies to a device slightly faster.
  /// Reading it on the host is slow, by a factor of ten or more. For memory that the host writes
  /// and never reads.
  write_combined,
  registered,  ///< the user's own memory; cannot be allocated
};

/// Options of one allocation of pinned memory.
struct PinnedOptions {
  /// The device near which the memory is placed: its pages come from that device's NUMA node, as
  /// long as the node has free pages. nullopt: the calling thread's current device. No effect if
  /// the driver reports no node, or on write-combined memory.
  std::optional<Device> near = std::nullopt;
  PinnedKind kind = PinnedKind::portable;
  /// Whether the call may wait for work of streams that uses freed blocks. false: OutOfMemory
  /// instead, if a limit or the system leaves no other memory. Pinning blocks in either case.
  bool may_wait = true;
};

/// Pinned memory around an address.
struct PinnedRange {
  void* data;         ///< its start
  std::size_t bytes;  ///< as requested
  PinnedKind kind;
  std::optional<int> numa_node;  ///< the node it was bound to; nullopt: none
};

/// How pinned memory was obtained.
struct PinnedGrowthCounters {
  std::uint64_t segments_by_callers = 0;     ///< obtained while a caller waited
  std::uint64_t segments_in_background = 0;  ///< obtained ahead of need
  std::uint64_t failures_in_background = 0;  ///< failed attempts of the background thread
  std::uint64_t segments_registered = 0;     ///< of both: berth's own pages, registered
  std::uint64_t segments_from_driver = 0;    ///< of both: allocated by the driver
};

/// The caching allocator of page-locked host memory. Blocks are ordered on no stream: a freed block
/// is reusable immediately, unless record_stream() or record_use() named streams that use it. Code
/// that starts an asynchronous copy from or to a block must record the stream; Copier does it
/// itself. A stalled copy holds back only the blocks that it uses.
///
/// Sizes    Blocks are rounded up to 512 bytes, which is less than 5 % from 10 KiB on. A block lies
///          in one registration, so the driver treats a copy of it as one piece of pinned memory.
/// Growth   Pages are mapped, as huge pages if the system allows it, touched by several threads,
///          and registered. If a step fails, if a device would see them at another address, and
///          from 512 GiB in one piece on, the driver allocates the memory instead.
/// Heaps    Memory of different NUMA nodes and kinds is kept apart. If all devices are near one
///          node, as on most machines, there is one heap for each kind. Counters are the sums over
///          the heaps, so their peaks may be higher than the memory ever in use at one time.
/// Threads  As Allocator.
class BERTH_API PinnedAllocator final : public Allocator {
 public:
  /// Errors  InvalidArgument: an option out of range.
  PinnedAllocator(const DeviceRegistry& registry, PinnedAllocatorOptions options);
  /// Returns all memory to the driver. Live blocks and registrations are reported to the report
  /// sink, and end too. If graphs still use blocks, waits for their launches.
  ~PinnedAllocator() override;

  /// Allocates page-locked host memory that is visible to every device. 0 bytes gives an empty
  /// Allocation.
  ///
  /// Blocking  A cached block needs no driver call; but if devices are near different nodes, the
  ///           driver is queried for the current device, unless `near` names one. Otherwise
  ///           pinning, at 1 to 10 GB/s, which may stall other driver calls of the machine.
  /// Errors    InvalidArgument: no such device, or a kind that cannot be allocated. NotSupported:
  ///           there are no CUDA devices. OutOfMemory. DriverError. The allocator is then
  ///           unchanged, except that cached memory may have been returned.
  [[nodiscard]] Allocation allocate(std::size_t bytes) {
    return {*this, allocate_raw(bytes), bytes};
  }
  [[nodiscard]] Allocation allocate(std::size_t bytes, const PinnedOptions& options) {
    return {*this, allocate_raw(bytes, options), bytes};
  }
  /// Like allocate(), but never throws.
  Result<Allocation> try_allocate(std::size_t bytes) noexcept;
  Result<Allocation> try_allocate(std::size_t bytes, const PinnedOptions& options) noexcept;
  /// Like allocate(), but without an owner: free the block with deallocate(). null for 0 bytes.
  [[nodiscard]] void* allocate_raw(std::size_t bytes);
  [[nodiscard]] void* allocate_raw(std::size_t bytes, const PinnedOptions& options);
  /// Allocator::allocate_raw().
  /// Errors  InvalidArgument: the per-thread default stream, or a stream of another Runtime.
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream) override;

  /// Contracts of the functions of Allocator without a comment, here and below: Allocator.
  [[nodiscard]] Device device() const noexcept override { return Device::cpu(); }
  void deallocate(void* data) override;
  /// Also for registered memory, with any pointer into it. While `stream` is captured, this covers
  /// only the capture: it makes no query, so it does not detect the graph. Call record_use() or
  /// keep_for_graph() for work that a graph repeats.
  /// Errors  InvalidArgument: also the per-thread default stream, or a stream of another Runtime.
  void record_stream(void* data, StreamRef stream) override;
  /// While `stream` is captured, this is keep_for_graph() for a block. For a registration it is
  /// then record_stream(). Always makes a capture query.
  void record_use(void* data, StreamRef stream) override;
  /// Declares that work captured on `stream` reads or writes the block at `data`. null: no effect.
  /// Copier does it itself; call it for kernels and copies that the program captures.
  ///
  /// After deallocate(), the block is not reused before the graph that is being captured and every
  /// executable graph and clone made from it are destroyed, and all of their launches are done. The
  /// driver reports that moment (cuUserObjectCreate); the next request that the cached memory does
  /// not serve, trim(), release_unused() and counters() act on it. MemoryCounters::blocks_in_graphs
  /// counts such blocks. A driver before CUDA 12.3 does not report it: the block is then kept until
  /// the allocator is destroyed.
  ///
  /// Destroy graphs before the Runtime, or do not launch them afterwards: its memory ends with it,
  /// which is reported if there are such graphs.
  /// Blocking  Three driver calls the first time for a graph and a block, one afterwards.
  /// Errors    InvalidArgument: not a live block of this allocator; a registration, which must
  ///           exist for as long as the graph may be launched; a stream that is not in a valid
  ///           capture; the per-thread default stream; a stream of another Runtime. DriverError.
  ///           The block is then not kept, or longer than necessary; do not capture the work.
  void keep_for_graph(void* data, StreamRef stream);
  /// Errors  DriverError: the driver refuses to take back memory. Memory that awaits a stream of a
  ///         failed device, or one that the driver refuses to mark, stays reserved: this is
  ///         reported, and is no error, because other devices may be sound.
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;

  /// Pins the caller's own memory for as long as the registration exists: it can be copied like a
  /// block, at its own address. The memory must stay mapped until then. 0 bytes gives an empty
  /// registration.
  ///
  /// The driver pins the pages that the range touches. Its behavior for two registrations that
  /// share a page is not documented, so pass whole pages, of 4 KiB here and up to 64 KiB on other
  /// machines. Registered memory does not count for bytes_reserved_max.
  ///
  /// Blocking  Pinning, at 1 to 10 GB/s.
  /// Errors    InvalidArgument: null; a range that wraps around, is not entirely writable memory of
  ///           this process, or touches pinned memory of berth or another library; 512 GiB or more,
  ///           with which a later call fails on current drivers. OutOfMemory. NotSupported: no CUDA
  ///           devices, or a driver that does not register such memory. DriverError.
  [[nodiscard]] HostRegistration register_memory(void* data, std::size_t bytes) {
    register_raw(data, bytes);
    return {*this, data, bytes};
  }
  /// Like register_memory(), but never throws.
  Result<HostRegistration> try_register_memory(void* data, std::size_t bytes) noexcept;
  /// Like register_memory(), but without an owner: end the registration with unregister().
  void register_raw(void* data, std::size_t bytes);
  /// Ends the registration that starts at `data`. null: no effect.
  /// Blocking  Waits for the work of streams that were recorded on it. berth waits for no other
  ///           work, but the driver's own call may.
  /// Errors    InvalidArgument: no registration starts there. DriverError: the driver refuses; the
  ///           memory is still pinned.
  void unregister(void* data);

  /// The start of the live block or registration that contains `data`; null if there is none.
  [[nodiscard]] void* find_block(const void* data) const noexcept;
  /// Whether `data` points into memory that this allocator has pinned for blocks, live or not. No
  /// driver call.
  [[nodiscard]] bool owns(const void* data) const noexcept;
  /// Like find_block(), with all known properties.
  [[nodiscard]] std::optional<PinnedRange> find(const void* data) const;

  [[nodiscard]] MemoryCounters counters() const override;
  [[nodiscard]] PinnedGrowthCounters growth_counters() const;
  /// Bytes of current registrations, which no other counter includes.
  [[nodiscard]] std::size_t bytes_registered() const;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

  /// Waits until the background thread has done the work that earlier calls requested: the growth
  /// for low_water_bytes, and the return of memory beyond bytes_cached_max. Growth ends at
  /// bytes_reserved_max, and at the first refusal of the driver, which is reported; so less than
  /// low_water_bytes may be free after the call. The allocator tries again after later allocations,
  /// less and less often while the driver refuses.
  /// Blocking  While it pins and unpins. No effect without these options, and in a forked child.
  void finish_background_work();

 private:
  friend class HostRegistration;
  friend class PinnedLookup;     // what copies ask
  friend struct StagingDeleter;  // how copies free

  PinnedHeaps& require_device() const;
  /// Refuses a stream of another Runtime.
  PinnedHeaps& require_own(StreamRef user) const;
  /// For destructors: failures are reported.
  void end_registration(void* data) noexcept;

  std::unique_ptr<PinnedHeaps> heaps_;  ///< null if there are no CUDA devices
};

}  // namespace berth
