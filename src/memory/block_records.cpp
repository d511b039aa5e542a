// SPDX-License-Identifier: Apache-2.0
#include "memory/block_records.hpp"

#include <algorithm>
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

void BlockRecords::reserve(std::size_t count) {
  while (spares_ + committed_ - made_ < count) commit_more();
}

Block& BlockRecords::make() {
  if (spare_ == nullptr) {
    reserve(1);
    return *new (first_ + made_++) Block;
  }
  Block* const block = spare_;
  spare_ = block->next;
  --spares_;
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
  block.next = spare_;
  spare_ = &block;
  ++spares_;
}

}  // namespace berth
