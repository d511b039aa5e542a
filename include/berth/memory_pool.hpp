// SPDX-License-Identifier: Apache-2.0
// Private pools of device memory, with their own name, limits and lifetime.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/error.hpp"
#include "berth/export.h"
#include "berth/memory_limits.hpp"
#include "berth/sleep_content.hpp"
#include "berth/stream.hpp"

namespace berth {

class DevicePool;
class DeviceMemory;

/// Options of a private pool.
struct MemoryPoolOptions {
  /// The name in statistics and errors, after the device: "cuda:0/weights". 1 to 64 printable ASCII
  /// characters. Several pools may have the same name, and sleep(name) applies to all of them.
  std::string name = {};

  /// Limits of this pool, within those of the device.
  MemoryLimits limits = {};

  /// true: the pool is for memory that CUDA graphs use. Captured streams can allocate from it, and
  /// every address keeps its memory until the pool is closed: trim() and other pools do not take
  /// it. Keep a MemoryPool with the graph, and close it after the graph's last launch is done. Each
  /// launch writes the memory that the graph uses, so allocate nothing else from such a pool, and
  /// share it between graphs only if they are launched one after the other.
  bool for_graphs = false;

  /// true: each block lies in one physical allocation of the driver, which stays at its address
  /// until no block is left in it. For users that refer to memory by its physical pages: other
  /// processes (MemoryConnection), network cards (GPUDirect RDMA, UCX, NCCL, NVSHMEM), and kernels
  /// that stay resident while memory is written through another mapping. Physical memory is created
  /// exportable and RDMA-capable if the device supports it (MemoryProperties).
  ///
  /// Requests below half of DeviceAllocatorOptions::segment_bytes share allocations of that size,
  /// and others get one of their own. Free memory in separate allocations is not stitched, so such
  /// a pool needs more memory than others, and it cannot sleep. With for_graphs, both apply:
  /// physical memory stays until the pool is closed.
  bool contiguous = false;

  /// true, with `contiguous`: physical memory can also have fabric handles
  /// (CU_MEM_HANDLE_TYPE_FABRIC), by which other machines of a multi-node NVLink domain import it.
  /// Libraries such as NCCL and NVSHMEM export it by its address (cuMemRetainAllocationHandle,
  /// cuMemExportToShareableHandle). The process needs access to an IMEX channel; without access,
  /// allocations throw DriverError (CUDA_ERROR_NOT_PERMITTED).
  bool fabric = false;
};

/// Properties of a live block of device memory.
struct MemoryProperties {
  /// Whether the block lies in one physical allocation, and stays there: the pool is contiguous, or
  /// the device has no virtual memory.
  bool is_contiguous = false;
  /// Whether another process can import it (MemoryConnection).
  bool is_exportable = false;
  /// Whether the physical allocation can have a fabric handle (MemoryPoolOptions::fabric).
  bool is_fabric_exportable = false;
  /// Whether the physical allocation was created for GPUDirect RDMA
  /// (CUmemAllocationProp::allocFlags.gpuDirectRDMACapable).
  bool is_rdma_capable = false;
  /// The physical allocation that contains the block. null and 0: the pool is not contiguous, or
  /// its memory is of cuMemAlloc (cuMemGetAddressRange).
  void* segment = nullptr;
  std::size_t segment_bytes = 0;
};

/// Which blocks of a pool were live at one moment: MemoryPool::checkpoint(). Copies share it. It
/// keeps neither the pool nor memory, and may outlive both.
class BERTH_API PoolCheckpoint {
 public:
  /// The number of live blocks.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  friend class MemoryPool;
  struct State;
  explicit PoolCheckpoint(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// What MemoryPool::restore() did: the starts of blocks, by address. A block that is in `freed` and
/// in `allocated` had another size or stream, or consists of other pieces of memory.
struct RestoredBlocks {
  std::vector<void*> freed;      ///< were live, and have ended
  std::vector<void*> allocated;  ///< had ended, and are live again; the caller frees them
  std::vector<void*> kept;       ///< are live as before
};

/// A private pool of device memory, created by DeviceAllocator::create_pool(). Copies refer to the
/// same pool, which is closed when the last of them is destroyed. Free memory is then returned to
/// the driver when the work that used it is done. Live blocks stay valid; their memory is returned
/// after they are freed, when memory is trimmed or short, or when a pool is created or closed,
/// which waits for that work. A pool takes address space, not memory: up to 33 times the device's
/// size, which leaves room for about fifty pools on a device of 80 GiB. With less address space,
/// less free memory in separate places can be stitched.
///
/// Lifetime  Handles and scopes must be destroyed before the Runtime. Its end reports open pools by
///           name and closes them, with their live blocks. Handles and scopes that outlive it can
///           only be destroyed; calls throw InvalidArgument.
/// Threads  Safe from any thread; a single MemoryPool object from one thread at a time.
class BERTH_API MemoryPool final : public Allocator {
 public:
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = default;
  MemoryPool& operator=(const MemoryPool&) = default;

  /// Contracts of these functions: DeviceAllocator. A block may be freed through the pool, or
  /// through the device's allocator, which takes longer to find it.
  [[nodiscard]] Allocation allocate(std::size_t bytes, StreamRef stream);
  Result<Allocation> try_allocate(std::size_t bytes, StreamRef stream) noexcept;
  [[nodiscard]] void* allocate_raw(std::size_t bytes, StreamRef stream) override;
  /// The owner of a live block of this pool, for a block of allocate_raw(). Its stream() is empty.
  /// Errors  InvalidArgument: not the start of a live block of this pool.
  [[nodiscard]] Allocation adopt(void* data);
  [[nodiscard]] Device device() const noexcept override;
  void deallocate(void* data) override;
  void record_stream(void* data, StreamRef stream) override;
  void record_use(void* data, StreamRef stream) override;
  std::size_t trim(std::size_t bytes_to_keep = 0) override;
  std::size_t release_unused(std::chrono::nanoseconds age) override;
  void retire_stream(StreamRef stream) noexcept override;
  void set_limits(const MemoryLimits& limits);
  [[nodiscard]] bool owns(const void* data) const noexcept;
  /// The live block of this pool that contains `data`; its allocator is this object.
  [[nodiscard]] std::optional<MemoryBlock> find(const void* data);
  /// The properties of the live block of this pool that contains `data`.
  [[nodiscard]] std::optional<MemoryProperties> properties(const void* data);
  [[nodiscard]] MemoryCounters counters() const override;
  void reset_peaks() override;
  [[nodiscard]] MemorySnapshot snapshot() const override;
  void validate() const override;

  /// The name with the device: "cuda:0/weights".
  [[nodiscard]] const std::string& name() const noexcept;

  /// Returns all physical memory of the pool to the driver, including that of live blocks.
  /// Addresses stay valid. Until wake(), the device must not use memory of the pool, allocations
  /// throw InvalidArgument, and frees are allowed. A pool that is closed asleep cannot be woken, so
  /// its blocks can only be freed. The result is the number of bytes returned; 0 if the pool is
  /// asleep. Must not be called while work of the device is captured, because it breaks the
  /// capture.
  /// Blocking  Waits for all work of the device and for the copy of the content, without a lock.
  ///           Meanwhile other threads may call all other functions of the pool. Their sleep(),
  ///           wake() and end of the pool wait for the copy; no other function does.
  /// Errors    NotSupported: without virtual memory addresses cannot be kept, and in contiguous
  ///           pools physical memory must stay. OutOfMemory: the host has no memory for the
  ///           content. DriverError: the driver cannot wait or copy. The pool is then awake and
  ///           unchanged. DriverError, and is_asleep() is true: the driver has refused to take back
  ///           some memory. That memory stays reserved, and is returned by trim() or before another
  ///           pool of the device runs out of memory; wake() uses it.
  std::size_t sleep(SleepContent content = SleepContent::discard);
  /// Obtains the same amount of memory again, at the same addresses. No effect if the pool is
  /// awake.
  /// Blocking  Waits for the copy of the content as sleep() does. The pool is asleep until then.
  ///           Cached memory of other pools of the device is returned for it; on_pressure is not
  ///           called.
  /// Errors    OutOfMemory, DriverError: the pool is still asleep, and its content is kept.
  void wake();
  [[nodiscard]] bool is_asleep() const;

  /// The blocks that are live now, for restore(). For a framework that records several CUDA graphs
  /// into one pool, and restores the pool to its state after an earlier graph was recorded, to
  /// record another graph from there (PyTorch's trees of CUDA graphs).
  /// Errors  InvalidArgument: the pool is not for graphs (MemoryPoolOptions::for_graphs), or this
  ///         is a call from inside on_map or on_unmap.
  [[nodiscard]] PoolCheckpoint checkpoint() const;
  /// Makes exactly those blocks live that were live at the checkpoint: frees all others, and
  /// allocates again those that have been freed since, at their addresses and on their streams.
  /// Blocks that are live now and were live then, with the same address, size, stream and pieces of
  /// memory, are kept. Contents do not change. No driver call; the caller orders the work, also the
  /// work of other streams that have used the memory since. No other thread may allocate from the
  /// pool or free its blocks meanwhile, because its view of them would be outdated.
  /// Errors  InvalidArgument: a checkpoint of another pool; the pool is asleep; a block that would
  ///         be freed was recorded for another stream or is part of a graph; memory that a block
  ///         needs is used by such a block that was freed; the stream of a block has been
  ///         destroyed. OutOfMemory: the host has no memory. Nothing is changed.
  RestoredBlocks restore(const PoolCheckpoint& checkpoint);

 private:
  friend class DeviceAllocator;
  friend class MemoryConnection;
  friend class PoolScope;
  struct Reference;
  MemoryPool(DeviceMemory& device, std::shared_ptr<DevicePool> pool);
  [[nodiscard]] DevicePool& pool() const;
  [[noreturn]] void refuse_ended() const;

  std::shared_ptr<Reference> reference_;
};

/// Routes requests of DeviceAllocator::allocate() on the pool's device to the pool, while the
/// object exists. If several scopes cover a request, the most recently created one applies. Scopes
/// may end in any order. While any scope exists, every allocation of the device looks the scopes
/// up. Movable.
/// Threads  May be created and destroyed on different threads.
class BERTH_API PoolScope {
 public:
  /// Covers requests of the calling thread.
  [[nodiscard]] static PoolScope on_this_thread(const MemoryPool& pool);
  /// Covers requests ordered on `stream`, from any thread; no requests after the stream has ended.
  /// Errors  InvalidArgument: a stream of another device.
  [[nodiscard]] static PoolScope on_stream(const MemoryPool& pool, StreamRef stream);
  ~PoolScope();
  PoolScope(PoolScope&& other) noexcept
      : pool_(other.pool_), number_(std::exchange(other.number_, 0)) {}
  PoolScope& operator=(PoolScope&&) = delete;

 private:
  PoolScope(const MemoryPool& pool, std::optional<StreamRef> stream);

  const MemoryPool pool_;
  std::uint64_t number_;  ///< 0: moved from
};

}  // namespace berth
