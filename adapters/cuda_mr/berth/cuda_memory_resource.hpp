// SPDX-License-Identifier: Apache-2.0
// berth's device memory as a memory resource of CCCL (cuda::mr). Needs the headers of CCCL 3.1 or later, or of
// CCCL 3.0 (CUDA Toolkit 13.0) with LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE defined. CCCL 3.0 has other
// names for the functions, and the stream is their last argument.
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

/// The memory of one device. A value: copies share one state and compare equal. A block is freed through any
/// resource of the same Runtime and device.
///
/// Lifetime   The Runtime outlives every copy, and all blocks are freed before it ends. A moved-from resource
///            may be assigned to and destroyed.
/// Threads    Safe from any thread.
/// Alignment  A power of two up to kBlockBytes. Every block is aligned to kBlockBytes. Deallocation looks at
///            neither its size nor its alignment.
/// Streams    berth does not own them: Allocator::retire_stream() before a stream is destroyed. A null handle
///            is the legacy default stream. No memory is ordered on the per-thread default stream, whose
///            handle names another stream on each thread: InvalidArgument.
/// Captures   Blocks are allocated and freed on captured streams as with DeviceAllocator. The functions
///            without a stream may be called beside captures.
/// Errors     Those of DeviceAllocator. InvalidArgument: another alignment. Nothing is changed. Deallocation
///            does not throw, as the references of cuda::mr require. What is no live block, as with a second
///            free, ends the process.
/// Fork       In a child made by fork() allocations fail with NotSupported, and deallocations do nothing.
class DeviceMemoryResource {
 public:
  DeviceMemoryResource(Runtime& runtime, Device device)
      : shared_(std::make_shared<Shared>(runtime, device)) {}

#if CCCL_VERSION >= 3'001'000
  /// Work submitted to `stream` from now on may use the memory. null for 0 bytes.
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = kBlockBytes) {
    return shared_->allocate(stream.get(), bytes, alignment);
  }
  /// Any stream may free a block: the block is reused behind the work that `stream` holds now, and behind
  /// the work of the stream that it was allocated on. null is no operation.
  /// Blocking  Never, unless no event marks the work of another stream than the block's own: as many are on
  ///           lease as there may be (EventPoolOptions), the driver fails, or it is the per-thread default
  ///           stream. Then until that work is done; a block for which that cannot be waited is not reused.
  void deallocate(cuda::stream_ref stream, void* data, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kBlockBytes) noexcept {
    shared_->deallocate(stream.get(), data);
  }
  /// The memory is ready for every stream on return.
  /// Blocking  Until the work is done that used the memory before.
  void* allocate_sync(std::size_t bytes, std::size_t alignment = kBlockBytes) {
    return shared_->allocate_ready(bytes, alignment);
  }
  /// The caller has waited for all work that uses the block. Never waits. null is no operation.
  void deallocate_sync(void* data, std::size_t /*bytes*/, std::size_t /*alignment*/ = kBlockBytes) {
    shared_->deallocate(data);
  }
#else
  // The same four functions, in the names of CCCL 3.0.
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return shared_->allocate(stream.get(), bytes, alignment);
  }
  void deallocate_async(void* data, std::size_t /*bytes*/, std::size_t /*alignment*/,
                        cuda::stream_ref stream) noexcept {
    shared_->deallocate(stream.get(), data);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = kBlockBytes) {
    return shared_->allocate_ready(bytes, alignment);
  }
  void deallocate(void* data, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = kBlockBytes) noexcept {
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
        : runtime_(runtime),
          device_(runtime.devices().resolve(device)),
          memory_(runtime.memory(device_)),
          ready_(runtime.devices().context(device_), {}) {}

    void* allocate(CUstream_st* stream, std::size_t bytes, std::size_t alignment) {
      check(alignment);
      return memory_.allocate_raw(bytes, runtime_.stream(device_, stream));
    }
    // A stream of ready_ has no work but the waits that other streams' memory comes behind.
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
      const StreamRef user = runtime_.stream(device_, stream);
      if (is_marked(data, user) || is_waited_for(user)) memory_.deallocate(data);
    }
    void deallocate(void* data) noexcept { memory_.deallocate(data); }
    [[nodiscard]] Device device() const noexcept { return device_; }

   private:
    bool is_marked(void* data, StreamRef user) noexcept {
      try {
        memory_.record_use(data, user);
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
      if (is_power_of_two && alignment <= kBlockBytes) return;
      throw InvalidArgument("an alignment of " + std::to_string(alignment) +
                            " B; accepted: a power of two up to " + std::to_string(kBlockBytes));
    }

    Runtime& runtime_;
    const Device device_;
    DeviceAllocator& memory_;
    StreamPool ready_;  ///< apart from the Runtime's, whose streams may have work of others
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
