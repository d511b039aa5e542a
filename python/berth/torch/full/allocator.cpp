// SPDX-License-Identifier: Apache-2.0
#include "allocator.hpp"

#include <algorithm>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <limits>
#include <new>

namespace berth::torch {
namespace {

/// The allocator of the process. Never destroyed: tensors are freed until the very end.
Allocator* the_allocator = nullptr;

void delete_block(void* data) {
  the_allocator->raw_delete(data);
}

const c10::impl::PyInterpreter* sanitizer() {
  return c10::impl::GPUTrace::get_trace();
}

}  // namespace

void unsupported(const char* what) {
  TORCH_CHECK(false, "berth's allocator for PyTorch does not support ", what);
}

c10::DataPtr Allocator::allocate(std::size_t bytes) {
  const c10::DeviceIndex device = c10::cuda::current_device();
  void* const data = allocate_on(bytes, device, c10::cuda::getCurrentCUDAStream(device));
  return {data, data, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr Allocator::raw_deleter() const {
  return &delete_block;
}

void* Allocator::raw_alloc(std::size_t bytes) {
  const c10::DeviceIndex device = c10::cuda::current_device();
  return allocate_on(bytes, device, c10::cuda::getCurrentCUDAStream(device));
}

void* Allocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  return allocate_on(bytes, c10::cuda::current_device(), stream);
}

void* Allocator::allocate_on(std::size_t bytes, c10::DeviceIndex device, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  try {
    data = memory_.allocate(bytes, device, stream);
  } catch (const std::bad_alloc& error) {
    fail(bytes, device, error.what());
  }
  note_allocated(data, bytes, device, stream);
  return data;
}

void Allocator::note_allocated(void* data, std::size_t bytes, c10::DeviceIndex device,
                               cudaStream_t stream) {
  AllocationTotals::get().add(device, bytes);
  if (history_.is_enabled()) [[unlikely]]
    history_.allocated(data, bytes, device, stream);
  if (const auto* python = sanitizer()) [[unlikely]]
    (*python)->trace_gpu_memory_allocation(c10::DeviceType::CUDA,
                                           reinterpret_cast<std::uintptr_t>(data));
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    tell_profiler(data, static_cast<std::int64_t>(rounded(bytes)), device);
}

void Allocator::raw_delete(void* data) {
  if (data == nullptr) return;
  note_freed(data);
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    std::size_t bytes = 0;
    memory_.base(data, &bytes);
    memory_.free(data);
    tell_profiler(data, -static_cast<std::int64_t>(rounded(bytes)), c10::cuda::current_device());
    return;
  }
  memory_.free(data);
}

void Allocator::note_freed(void* data) {
  if (history_.is_enabled()) [[unlikely]]
    history_.freed(data);
  if (const auto* python = sanitizer()) [[unlikely]]
    (*python)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA,
                                             reinterpret_cast<std::uintptr_t>(data));
}

void Allocator::tell_profiler(void* data, std::int64_t change, c10::DeviceIndex device) {
  const DeviceCounters counters = memory_.counters(device);
  c10::reportMemoryUsageToProfiler(data, change, counters.bytes_allocated.current,
                                   counters.bytes_reserved.current,
                                   c10::Device(c10::DeviceType::CUDA, device));
}

void Allocator::fail(std::size_t bytes, c10::DeviceIndex device, const char* why) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  if (history_.is_enabled()) history_.out_of_memory(bytes, device, free);
  std::vector<caching::OutOfMemoryObserver> observers;
  {
    const std::lock_guard lock(mutex_);
    observers = out_of_memory_observers_;
  }
  for (const auto& observer : observers) observer(device, bytes, total, free);
  // Programs look for the first words.
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                   c10::CachingAllocator::format_size(bytes), ". ", why);
}

void Allocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void Allocator::init(int device_count) {
  devices_ = device_count;
}

void Allocator::enable(bool value) {
  if (!value) unsupported("caching_allocator_enable(False)");
}

void Allocator::require(c10::DeviceIndex device) const {
  const int devices = std::max(devices_.load(), 0);
  TORCH_CHECK(device >= 0 && device < devices, "Invalid device argument ", int{device},
              ": there are ", devices, " devices");
}

double Allocator::getMemoryFraction(c10::DeviceIndex device) {
  require(device);
  const std::lock_guard lock(mutex_);
  const auto found = fractions_.find(device);
  return found == fractions_.end() ? 1.0 : found->second;
}

void Allocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  memory_.limit(fraction, device);
  const std::lock_guard lock(mutex_);
  fractions_[device] = fraction;
}

void Allocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  *largest = std::max(*largest, memory_.largest_free_block(device));
}

void* Allocator::getBaseAllocation(void* data, std::size_t* bytes) {
  return memory_.base(data, bytes);
}

void Allocator::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  if (data.get() == nullptr) return;
  memory_.record_stream(data.get(), stream);
}

void Allocator::enablePeerAccess(c10::DeviceIndex user, c10::DeviceIndex owner) {
  memory_.enable_peer_access(user, owner);
}

cudaError_t Allocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                   std::size_t bytes, cudaStream_t stream, bool has_peer_access) {
  if (has_peer_access || to_device == from_device)
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

}  // namespace berth::torch

/// Makes berth the allocator of the process. 0, or 1 and the reason in `message`.
extern "C" __attribute__((visibility("default"))) int berth_torch_enable_full(
    berth::torch::MemoryFunctions* memory, char* message, std::size_t size) {
  using namespace berth::torch;
  try {
    TORCH_CHECK(!caching::get()->initialized(),
                "Can't swap an already initialized allocator: enable berth before the first CUDA "
                "tensor");
    the_allocator = new Allocator(*memory);
    caching::allocator.store(the_allocator);
    constexpr std::uint8_t highest = std::numeric_limits<std::uint8_t>::max();
    c10::SetAllocator(c10::DeviceType::CUDA, the_allocator, highest);
    return 0;
  } catch (const c10::Error& error) {
    std::snprintf(message, size, "%s", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
  }
  return 1;
}
