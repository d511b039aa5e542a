// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDACachingAllocator, as PyTorch ships it, with its default settings. A process has
// one, so a new cache is the old one, emptied.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <new>

#include "peers/modules/peer_functions.hpp"

// Not in its headers: PyTorch's own initialization sets this in the library.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*has_primary_context)(DeviceIndex));
}

namespace caching = c10::cuda::CUDACachingAllocator;

namespace {

void* create() {
  static const bool initialised = (caching::init(c10::cuda::device_count()), true);
  static_cast<void>(initialised);
  caching::emptyCache();
  return nullptr;
}

void destroy(void*) {
  caching::emptyCache();
}

void* allocate(void*, std::size_t bytes, CUstream_st* stream) {
  try {
    return caching::raw_alloc_with_stream(bytes, stream);
  } catch (const c10::OutOfMemoryError&) {
    throw std::bad_alloc();
  }
}

void deallocate(void*, void* data, std::size_t, CUstream_st*) {
  caching::raw_delete(data);
}

void trim(void*) {
  caching::emptyCache();
}

volatile c10::StreamId last_id;  // so that the compiler does not remove the query

void enter() {
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(false, 0));
}

void acquire() {
  last_id = c10::cuda::getStreamFromPool(false, 0).id();
}

void guard_stream() {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getCurrentCUDAStream(0));
}

void guard_device() {
  const c10::cuda::CUDAGuard guard(c10::DeviceIndex{0});
}

void ask_current() {
  last_id = c10::cuda::getCurrentCUDAStream(0).id();
}

constexpr berth::bench::PeerStreamFunctions kStreams = {enter, acquire, guard_stream, guard_device,
                                                        ask_current};

}  // namespace

const berth::bench::PeerFunctions berth_peer = {create,     destroy, allocate,
                                                deallocate, trim,    &kStreams};
