// SPDX-License-Identifier: Apache-2.0
// berth's device memory for Thrust: the temporary memory of its algorithms, and its vectors.
// Requires the headers of Thrust.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <thrust/device_ptr.h>

#include "berth/runtime.hpp"

namespace berth {

/// A value: copies allocate on the same stream, and free what the others allocated.
///
///     thrust::sort(thrust::cuda::par_nosync(ThrustAllocator<char>(runtime, stream)).on(native),
///                  first, last);
///     thrust::device_vector<float, ThrustAllocator<float>> numbers(n, allocator);
///
/// Lifetime  The Runtime must outlive every copy and every vector.
/// Threads   Safe from any thread.
/// Stream    Memory is ordered on `stream`, which must be the one that the algorithm is given. A
///           vector's own constructors and assignments use the legacy default stream: use
///           Runtime::default_stream() for vectors.
/// Errors    allocate(): as DeviceAllocator; OutOfMemory is a std::bad_alloc. deallocate() does
///           not throw: a pointer that is not a live block ends the process.
/// Fork      In a child made by fork(), allocations throw NotSupported, and frees have no effect.
template <class T>
class ThrustAllocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<const T>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<const T>;
  using size_type = std::size_t;
  using difference_type = typename pointer::difference_type;
  template <class U>
  struct rebind {
    using other = ThrustAllocator<U>;
  };

  ThrustAllocator(Runtime& runtime, StreamRef stream)
      : memory_(&runtime.memory(stream.device())), stream_(stream) {}
  template <class U>
  explicit ThrustAllocator(const ThrustAllocator<U>& other) noexcept
      : memory_(&other.memory()), stream_(other.stream()) {}

  [[nodiscard]] pointer allocate(size_type count) {
    if (count > std::numeric_limits<size_type>::max() / sizeof(T))
      throw std::bad_array_new_length();
    return pointer(static_cast<T*>(memory_->allocate_raw(count * sizeof(T), stream_)));
  }
  void deallocate(pointer data, size_type) noexcept {
    memory_->deallocate(const_cast<void*>(static_cast<const void*>(data.get())));
  }

  [[nodiscard]] DeviceAllocator& memory() const noexcept { return *memory_; }
  [[nodiscard]] StreamRef stream() const noexcept { return stream_; }

  /// Whether blocks of one can be freed by the other.
  friend bool operator==(const ThrustAllocator& a, const ThrustAllocator& b) noexcept {
    return a.memory_ == b.memory_ && a.stream_ == b.stream_;
  }

 private:
  DeviceAllocator* memory_;
  StreamRef stream_;
};

}  // namespace berth
