// SPDX-License-Identifier: Apache-2.0
// Adding and removing segments.
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "heap/block_heap.hpp"

namespace berth {

void BlockHeap::set_granule_bytes(std::size_t bytes) {
  BERTH_CHECK(std::has_single_bit(bytes) && segments_.empty() && owned_.empty());
  granule_bytes_ = bytes;
  granule_bytes_min_ = bytes;
  granule_bits_ = std::countr_zero(bytes);
}

Block& BlockHeap::add_segment(std::uintptr_t address, std::size_t bytes) {
  reserve_blocks(1);
  std::unique_ptr<GranuleIndex> holes;
  if (has_granules()) {
    BERTH_CHECK(holes_ == nullptr);
    holes = std::make_unique<GranuleIndex>(address, bytes, granule_bytes_);
  }
  const bool added = segments_.try_emplace(address, Segment{nullptr, bytes}).second;
  BERTH_CHECK(added && bytes > 0);
  if (holes != nullptr) {
    unowned_.free.index_holes(*holes);
    holes_ = std::move(holes);
  }
  Block& block = records_.make();
  block.address = address;
  block.bytes = bytes;
  segments_.at(address).first = &block;
  ++held_;
  return block;
}

BlockHeap::Segments::node_type BlockHeap::detach_segment(Block& whole) noexcept {
  BERTH_CHECK(whole.state() == Block::State::held && whole.is_whole_segment());
  auto detached = segments_.extract(whole.address);
  BERTH_CHECK(!detached.empty() && detached.mapped().first == &whole);
  BERTH_CHECK(detached.mapped().bytes == whole.bytes);
  if (detached.mapped().starts != nullptr) {
    BERTH_DCHECK(!detached.mapped().starts->last_up_to(whole.end() - 1));
    detached.mapped().starts = nullptr;
    --segments_with_starts_;
  }
  ++detached_;
  return detached;
}

void BlockHeap::attach_segment(Segments::node_type&& detached) noexcept {
  const bool attached = segments_.insert(std::move(detached)).inserted;
  BERTH_CHECK(attached && detached_ > 0);
  --detached_;
}

void BlockHeap::remove_segment(Segments::node_type&& detached) noexcept {
  BERTH_CHECK(!detached.empty() && detached_ > 0);
  BERTH_CHECK(detached.mapped().first->state() == Block::State::held);
  records_.recycle(*detached.mapped().first);
  --detached_;
  --held_;
}

}  // namespace berth
