// SPDX-License-Identifier: Apache-2.0
// The pools of CUDA graphs and of torch.cuda.MemPool.
#include <utility>

#include "allocator.hpp"

namespace berth::torch {

void Allocator::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id,
                                    std::function<bool(cudaStream_t)> filter) {
  memory_.begin_pool(device, id, std::move(filter));
}

void Allocator::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id) {
  memory_.end_pool(device, id);
}

void Allocator::releasePool(c10::DeviceIndex device, c10::MempoolId_t id) {
  memory_.release_pool(device, id);
}

int Allocator::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t id) {
  return memory_.pool_uses(device, id);
}

void Allocator::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t id,
                                   std::shared_ptr<caching::CUDAAllocator> allocator) {
  if (allocator != nullptr)
    unsupported("a MemPool with an allocator of its own; berth.torch.runtime() has pools");
  memory_.retain_pool(device, id);
}

void Allocator::setUseOnOOM(c10::DeviceIndex, c10::MempoolId_t, bool use_on_oom) {
  if (use_on_oom) unsupported("MemPool(use_on_oom=True)");
}

void Allocator::setNoSplit(c10::DeviceIndex, c10::MempoolId_t) {
  unsupported("MemPool(no_split=True)");
}

std::shared_ptr<caching::AllocatorState> Allocator::getCheckpointState(c10::DeviceIndex,
                                                                       c10::MempoolId_t) {
  unsupported("checkpoints of a pool, which CUDA graph trees need");
}

caching::CheckpointDelta Allocator::setCheckpointPoolState(
    c10::DeviceIndex, std::shared_ptr<caching::AllocatorState>) {
  unsupported("checkpoints of a pool, which CUDA graph trees need");
}

}  // namespace berth::torch
