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

namespace {

/// What PyTorch keeps of a checkpoint: it only hands it back.
struct State final : caching::AllocatorState {
  State(c10::MempoolId_t pool_, std::shared_ptr<const Checkpoint> blocks_)
      : pool(pool_), blocks(std::move(blocks_)) {}

  const c10::MempoolId_t pool;
  const std::shared_ptr<const Checkpoint> blocks;
};

}  // namespace

std::shared_ptr<caching::AllocatorState> Allocator::getCheckpointState(c10::DeviceIndex device,
                                                                       c10::MempoolId_t id) {
  return std::make_shared<State>(id, memory_.checkpoint(device, id));
}

caching::CheckpointDelta Allocator::setCheckpointPoolState(
    c10::DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) {
  const auto checkpoint = std::dynamic_pointer_cast<State>(std::move(state));
  if (checkpoint == nullptr) unsupported("a checkpoint of another allocator");
  const Restored restored = memory_.restore(device, checkpoint->pool, *checkpoint->blocks);
  // PyTorch expects that all blocks end, and those of the checkpoint begin: a tensor that is stale
  // and the tensor that takes its place may have the same address.
  caching::CheckpointDelta delta;
  const auto end = [&](void* data) { delta.ptrs_freed.push_back(data); };
  const auto begin = [&](void* data) {
    delta.dataptrs_allocd.emplace_back(data, data, raw_deleter(),
                                       c10::Device(c10::DeviceType::CUDA, device));
  };
  for (void* const data : restored.freed) {
    note_freed(data);
    end(data);
  }
  for (void* const data : restored.allocated) {
    std::size_t bytes = 0;
    memory_.base(data, &bytes);
    note_allocated(data, bytes, device, nullptr);
    begin(data);
  }
  for (void* const data : restored.kept) {
    end(data);
    begin(data);
  }
  return delta;
}

}  // namespace berth::torch
