// SPDX-License-Identifier: Apache-2.0
#include "heap/block_records.hpp"

#include <atomic>
#include <new>
#include <sys/mman.h>

#include "berth/error.hpp"

namespace berth {
namespace {

constexpr std::size_t kRecordBytesMax = BlockRecords::kBlocksMax * sizeof(Block);
/// The minimum committed at a time: 64 pages, a whole number of records.
constexpr std::size_t kCommitBytes = std::size_t{3} << 16;
static_assert(kCommitBytes % sizeof(Block) == 0 && kRecordBytesMax % kCommitBytes == 0);

}  // namespace

BlockRecords::BlockRecords() {
  void* const address =
      mmap(nullptr, kRecordBytesMax, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory("the process has no 1.5 GiB of address space left for records of blocks");
  }
  first_ = static_cast<Block*>(address);
}

BlockRecords::~BlockRecords() {
  munmap(first_, kRecordBytesMax);
}

void BlockRecords::commit_more() {
  if (committed_ == kBlocksMax) throw OutOfMemory("there are too many blocks: 2^25 at most");
  void* const end = first_ + committed_;
  if (mprotect(end, kCommitBytes, PROT_READ | PROT_WRITE) != 0) {
    throw OutOfMemory("the host is out of memory for records of blocks");
  }
  committed_ += kCommitBytes / sizeof(Block);
}

constinit thread_local std::size_t BlockRecords::lane_ = kNoLane;

void BlockRecords::choose_lane() {
  static std::atomic<std::size_t> threads = 0;
  lane_ = threads.fetch_add(1, std::memory_order_relaxed) % kLanes;
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

}  // namespace berth
