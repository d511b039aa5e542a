// SPDX-License-Identifier: Apache-2.0
// berth's device memory as a memory resource of CCCL (cuda::mr). Requires the headers of CCCL 3.1
// or later, or of CCCL 3.0 (CUDA Toolkit 13.0) with LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
// defined. In CCCL 3.0 the functions have other names, and the stream is their last argument.
#pragma once

#include <cuda/version>

#if CCCL_VERSION < 3'000'000
#error "berth/cuda_memory_resource.hpp needs CCCL 3.0 or later"
#elif CCCL_VERSION < 3'001'000 && !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#error "with CCCL 3.0, define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"
#endif

#include <cstddef>
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <exception>
#include <memory>
#include <string>

#include "berth/bytes.hpp"
#include "berth/relaxed_capture_scope.hpp"
#include "berth/runtime.hpp"
#include "berth/stream_pool.hpp"

namespace berth {

/// A memory resource for one device. A value: copies share one state and compare equal. A block may
/// be freed through any resource of the same Runtime and device.
///
/// Lifetime   The Runtime must outlive every copy, and all blocks must be freed before it ends. A
///            moved-from resource may be assigned to and destroyed.
/// Threads    Safe from any thread.
/// Alignment  A power of two up to kBlockAlignment. Every block is aligned to
///            kBlockAlignment. Deallocation ignores its size and its alignment.
/// Streams    berth does not own them: call Allocator::retire_stream() before a stream is
///            destroyed. A null handle is the legacy default stream. The per-thread default stream
///            cannot order memory, because its handle is a different stream on each thread:
///            InvalidArgument.
/// Captures   Blocks are allocated and freed on captured streams as with DeviceAllocator. The
///            functions without a stream may be called while other streams are captured.
/// Errors     As DeviceAllocator. InvalidArgument: another alignment. Nothing is changed.
///            Deallocation does not throw, as the references of cuda::mr require; freeing a pointer
///            that is not a live block, such as a second free, ends the process.
/// Fork       In a child made by fork(), allocations throw NotSupported, and deallocations have no
///            effect.
class DeviceMemoryResource {
 public:
  DeviceMemoryResource(Runtime& runtime, Device device)
      : shared_(std::make_shared<Shared>(runtime, device)) {}

#if CCCL_VERSION >= 3'001'000
  /// Work submitted to `stream` from now on may use the memory. null for 0 bytes.
  void* allocate(cuda::stream_ref stream, std::size_t bytes,
                 std::size_t alignment = kBlockAlignment) {
    return shared_->allocate(stream.get(), bytes, alignment);
  }
  /// Any stream may free a block: the block is reused behind the work that `stream` holds now, and
  /// behind the work of the stream that it was allocated on. null: no effect.
  /// Blocking  Does not wait, with one exception: if `stream` is not the block's own stream and no
  ///           event can mark its work, it waits for that work. That is the case if the maximum
  ///           number of events is on lease (EventPoolOptions), if the driver fails, or if `stream`
  ///           is the per-thread default stream. A block whose work cannot be waited for is not
  ///           reused.
  void deallocate(cuda::stream_ref stream, void* data, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kBlockAlignment) noexcept {
    shared_->deallocate(stream.get(), data);
  }
  /// The memory is ready for every stream on return.
  /// Blocking  Waits for the work that used the memory before.
  void* allocate_sync(std::size_t bytes, std::size_t alignment = kBlockAlignment) {
    return shared_->allocate_ready(bytes, alignment);
  }
  /// The caller must have waited for all work that uses the block. Does not wait. null: no effect.
  void deallocate_sync(void* data, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = kBlockAlignment) {
    shared_->deallocate(data);
  }
#else
  // The same four functions with the names of CCCL 3.0.
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return shared_->allocate(stream.get(), bytes, alignment);
  }
  void deallocate_async(void* data, std::size_t /*bytes*/, std::size_t /*alignment*/,
                        cuda::stream_ref stream) noexcept {
    shared_->deallocate(stream.get(), data);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = kBlockAlignment) {
    return shared_->allocate_ready(bytes, alignment);
  }
  void deallocate(void* data, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kBlockAlignment) noexcept {
    shared_->deallocate(data);
  }
#endif

  [[nodiscard]] Device device() const noexcept {
    return shared_->device();
  }

  friend bool operator==(const DeviceMemoryResource& a, const DeviceMemoryResource& b) noexcept {
    return a.shared_ == b.shared_;
  }
  friend constexpr void get_property(const DeviceMemoryResource&,
                                     cuda::mr::device_accessible) noexcept {}

 private:
  class Shared {
   public:
    Shared(Runtime& runtime, Device device)
        : device_(runtime.devices().resolve(device)),
          context_(runtime.devices().context(device_)),
          memory_(runtime.memory(device_)),
          ready_(context_, {}) {}

    void* allocate(CUstream_st* stream, std::size_t bytes, std::size_t alignment) {
      check(alignment);
      return memory_.allocate_raw(bytes, {context_, stream});
    }
    // A stream of ready_ contains only the waits behind which other streams' memory becomes
    // available.
    void* allocate_ready(std::size_t bytes, std::size_t alignment) {
      check(alignment);
      const StreamLease stream = ready_.acquire();
      Allocation block = memory_.allocate(bytes, stream);
      const RelaxedCaptureScope relaxed(stream->context());
      stream->sync();
      return block.release();
    }
    void deallocate(CUstream_st* stream, void* data) noexcept {
      if (data == nullptr) return;
      const StreamRef user(context_, stream);
      if (!is_freed_behind(data, user) && is_waited_for(user)) memory_.deallocate(data);
    }
    void deallocate(void* data) noexcept { memory_.deallocate(data); }
    [[nodiscard]] Device device() const noexcept { return device_; }

   private:
    bool is_freed_behind(void* data, StreamRef user) noexcept {
      try {
        memory_.deallocate(data, user);
        return true;
      } catch (const std::exception&) {
        return false;
      }
    }
    static bool is_waited_for(StreamRef user) noexcept {
      try {
        const RelaxedCaptureScope relaxed(user.context());
        user.sync();
        return true;
      } catch (const std::exception&) {
        return false;
      }
    }
    static void check(std::size_t alignment) {
      const bool is_power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
      if (is_power_of_two && alignment <= kBlockAlignment) return;
      throw InvalidArgument("an alignment of " + std::to_string(alignment) +
                            " B; accepted: a power of two up to " +
                            std::to_string(kBlockAlignment));
    }

    const Device device_;
    DeviceContext& context_;
    DeviceAllocator& memory_;
    StreamPool ready_;  ///< separate from the Runtime's pool, whose streams may have other work
  };

  std::shared_ptr<Shared> shared_;
};

#if CCCL_VERSION >= 3'001'000
static_assert(cuda::mr::resource_with<DeviceMemoryResource, cuda::mr::device_accessible>);
static_assert(
    cuda::mr::synchronous_resource_with<DeviceMemoryResource, cuda::mr::device_accessible>);
#else
static_assert(cuda::mr::async_resource_with<DeviceMemoryResource, cuda::mr::device_accessible>);
#endif

}  // namespace berth
