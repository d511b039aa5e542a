// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDACachingAllocator, as PyTorch ships it, with its default settings. There is one in a
// process, so that a new cache is the old one, emptied.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <new>

#include "peers/modules/peer_functions.hpp"

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

}  // namespace

const berth::bench::PeerFunctions berth_peer = {create, destroy, allocate, deallocate, trim};
