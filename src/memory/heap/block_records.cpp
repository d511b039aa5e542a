// SPDX-License-Identifier: Apache-2.0
#include "memory/heap/block_records.hpp"

#include <atomic>
#include <new>
#include <sys/mman.h>

#include "berth/error.hpp"

namespace berth {
namespace {

constexpr std::size_t kBytesMax = BlockRecords::kBlocksMax * sizeof(Block);
/// Committed at a time, at least: 64 pages, a whole number of records.
constexpr std::size_t kCommitBytes = std::size_t{3} << 16;
static_assert(kCommitBytes % sizeof(Block) == 0 && kBytesMax % kCommitBytes == 0);

}  // namespace

BlockRecords::BlockRecords() {
  void* const address =
      mmap(nullptr, kBytesMax, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory("the process has no 1.5 GiB of address space left for records of blocks");
  }
  first_ = static_cast<Block*>(address);
}

BlockRecords::~BlockRecords() {
  munmap(first_, kBytesMax);
}

void BlockRecords::commit_more() {
  if (committed_ == kBlocksMax) throw OutOfMemory("there are too many blocks: 2^25 at most");
  void* const end = first_ + committed_;
  if (mprotect(end, kCommitBytes, PROT_READ | PROT_WRITE) != 0) {
    throw OutOfMemory("the host is out of memory for records of blocks");
  }
  committed_ += kCommitBytes / sizeof(Block);
}

std::size_t BlockRecords::lane_of_thread() {
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t lane = threads.fetch_add(1) % kLanes;
  return lane;
}

void BlockRecords::extend(std::size_t lane) {
  lane_of_.reserve(lane_of_.size() + 1);
  if (given_ == committed_) commit_more();
  Block* const begin = first_ + given_;
  given_ += kLaneRecords;
  lane_of_.push_back(static_cast<std::uint8_t>(lane));
  for (Block* block = begin + kLaneRecords; block-- != begin;) {
    new (block) Block;
    block->next = lanes_[lane].spare;
    lanes_[lane].spare = block;
  }
  lanes_[lane].spares += kLaneRecords;
}

void BlockRecords::reserve(std::size_t count) {
  const std::size_t lane = lane_of_thread();
  while (lanes_[lane].spares < count) extend(lane);
}

Block& BlockRecords::make() {
  const std::size_t number = lane_of_thread();
  if (lanes_[number].spare == nullptr) extend(number);
  Lane& lane = lanes_[number];
  Block* const block = lane.spare;
  lane.spare = block->next;
  --lane.spares;
  // Not anew: PointerMap on another thread may still look at the address.
  block->bytes = 0;
  block->set_bytes_requested(0);
  block->freed_at = 0;
  block->prev = nullptr;
  block->next = nullptr;
  block->tree = {};
  block->owner = kUnowned;
  block->is_stitched = false;
  return *block;
}

void BlockRecords::recycle(Block& block) {
  // The address tells PointerMap::find() on another thread that this is no block any more.
  block.address = 0;
  block.set_state(Block::State::held);
  Lane& lane = lanes_[lane_of_[static_cast<std::size_t>(&block - first_) / kLaneRecords]];
  block.next = lane.spare;
  lane.spare = &block;
  ++lane.spares;
}

}  // namespace berth
