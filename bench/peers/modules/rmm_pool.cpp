// SPDX-License-Identifier: Apache-2.0
// rmm::mr::pool_memory_resource, as RAPIDS ships it, over cudaMalloc. It starts empty and has no
// limit, so that it grows by doubling; with a limit, even of all memory, it grows by half of the
// rest.
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include "peers/modules/peer_functions.hpp"

namespace {

struct Cache {
  rmm::mr::cuda_memory_resource device;
  rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool{&device, 0};
};

void* create() {
  return new Cache;
}

void destroy(void* cache) {
  delete static_cast<Cache*>(cache);
}

void* allocate(void* cache, std::size_t bytes, CUstream_st* stream) {
  return static_cast<Cache*>(cache)->pool.allocate(rmm::cuda_stream_view(stream), bytes);
}

void deallocate(void* cache, void* data, std::size_t bytes, CUstream_st* stream) {
  static_cast<Cache*>(cache)->pool.deallocate(rmm::cuda_stream_view(stream), data, bytes);
}

}  // namespace

const berth::bench::PeerFunctions berth_peer = {create,     destroy, allocate,
                                                deallocate, nullptr, nullptr};
