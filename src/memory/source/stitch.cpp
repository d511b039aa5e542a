// SPDX-License-Identifier: Apache-2.0
#include "memory/source/stitch.hpp"

#include <algorithm>
#include <tuple>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// Smaller requests fit between others: pieces of granules are not stitched together for them.
constexpr std::size_t kBytesInPiecesMin = std::size_t{64} << 10;

/// Blocks of less than this part of what whole granules lack are not worth a look, in a heap that may
/// have very many, unless nothing else will do. A request of whole granules lacks nothing.
constexpr std::size_t kPieceShare = 16;

bool is_smaller(const Extent& a, const Extent& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
}

const Extent* first_of_at_least(const std::vector<Extent>& extents, std::size_t bytes) {
  const auto found = std::lower_bound(
      extents.begin(), extents.end(), bytes,
      [](const Extent& extent, std::size_t wanted) { return extent.bytes < wanted; });
  return found == extents.end() ? nullptr : &*found;
}

std::size_t bytes_of(const Extent* extent) {
  return extent == nullptr ? 0 : extent->bytes;
}

}  // namespace

void Stitcher::collect(const BlockHeap& heap, OwnerId owner, std::size_t bytes_min) {
  tails_.clear();
  heads_.clear();
  ranges_.clear();
  whole_granules_ = 0;
  const auto add = [&](Block& block) {
    const std::uintptr_t begin = align_up(block.address, granule_bytes_);
    const std::uintptr_t end = align_down(block.end(), granule_bytes_);
    if (block.address < begin && begin <= block.end()) {
      tails_.push_back({&block, block.address, begin - block.address});
    }
    if (block.address <= end && end < block.end())
      heads_.push_back({&block, end, block.end() - end});
    if (begin < end) {
      ranges_.push_back({&block, begin, end - begin});
      whole_granules_ += (end - begin) / granule_bytes_;
    }
  };
  heap.free_blocks(owner).for_each_from(bytes_min, add);
  if (owner != kUnowned) heap.free_blocks(kUnowned).for_each_from(bytes_min, add);
  std::sort(tails_.begin(), tails_.end(), is_smaller);
  std::sort(heads_.begin(), heads_.end(), is_smaller);
}

void Stitcher::consider(std::size_t bytes, std::size_t whole, const Extent* tail,
                        const Extent* head) {
  const std::size_t fresh = whole > whole_granules_ ? whole - whole_granules_ : 0;
  if (fresh > fresh_max_) return;
  const std::size_t left = bytes_of(tail) + whole * granule_bytes_ + bytes_of(head) - bytes;
  const bool in_whole_granules = whole > 0 && (tail == nullptr || head == nullptr);
  const double left_behind =
      static_cast<double>(left) * (in_whole_granules ? kWorthOfWholeGranules : 1.0);
  const auto rank = [](const Candidate& each) {
    return std::tie(each.fresh, each.whole, each.left_behind);
  };
  const Candidate candidate{fresh, whole, left_behind, tail, head};
  if (!best_ || rank(candidate) < rank(*best_)) best_ = candidate;
}

/// The tail and the head that make up what `whole` granules lack, with the least left over.
void Stitcher::consider_pairs(std::size_t bytes, std::size_t whole) {
  const std::size_t wanted = bytes - whole * granule_bytes_;
  auto head = heads_.end();
  for (const Extent& tail : tails_) {
    if (tail.bytes >= wanted) break;
    while (head != heads_.begin() && tail.bytes + std::prev(head)->bytes >= wanted) --head;
    if (head != heads_.end()) consider(bytes, whole, &tail, &*head);
  }
}

const Stitch* Stitcher::choose(const BlockHeap& heap, std::size_t bytes, OwnerId owner,
                               std::size_t fresh_max) {
  fresh_max_ = fresh_max;
  best_.reset();
  const std::size_t rest = bytes % granule_bytes_;
  const std::size_t worthy = rest > 0 ? rest / kPieceShare : granule_bytes_;
  for (const std::size_t bytes_min : {worthy, std::size_t{0}}) {
    collect(heap, owner, bytes_min);
    consider_all(bytes);
    if (best_) break;
  }
  if (!best_) return nullptr;
  build(bytes);
  return &stitch_;
}

void Stitcher::consider_all(std::size_t bytes) {
  const std::size_t whole = bytes / granule_bytes_;
  const std::size_t rest = bytes % granule_bytes_;
  consider(bytes, whole + (rest > 0 ? 1 : 0), nullptr, nullptr);
  if (bytes < kBytesInPiecesMin) return;
  if (rest > 0) {
    if (const Extent* tail = first_of_at_least(tails_, rest)) consider(bytes, whole, tail, nullptr);
    if (const Extent* head = first_of_at_least(heads_, rest)) consider(bytes, whole, nullptr, head);
    consider_pairs(bytes, whole);
  }
  if (whole > 0) consider_pairs(bytes, whole - 1);
}

void Stitcher::build(std::size_t bytes) {
  const std::size_t wanted = (best_->whole - best_->fresh) * granule_bytes_;
  stitch_.tail = best_->tail == nullptr ? Extent{} : *best_->tail;
  stitch_.head = best_->head == nullptr ? Extent{} : *best_->head;
  stitch_.whole.clear();
  // The smallest ranges first: they serve fewest others. By address then, because identical sets of
  // granules must be mapped in the same order to be found again.
  std::sort(ranges_.begin(), ranges_.end(), is_smaller);
  std::size_t taken = 0;
  for (const Extent& range : ranges_) {
    if (taken == wanted) break;
    Extent part = range;
    part.bytes = std::min(range.bytes, wanted - taken);
    taken += part.bytes;
    stitch_.whole.push_back(part);
  }
  BERTH_CHECK(taken == wanted);
  std::sort(stitch_.whole.begin(), stitch_.whole.end(),
            [](const Extent& a, const Extent& b) { return a.address < b.address; });
  stitch_.fresh_granules = best_->fresh;
  stitch_.left_behind = best_->left_behind;
  stitch_.fresh_bytes = best_->fresh * granule_bytes_;
  stitch_.fresh_skipped_bytes = 0;

  // Too much by less than a granule, which comes off an end: of a piece where there are two, so that
  // the block stays in one; else of the whole granules, at the end that is no piece's.
  std::size_t surplus =
      stitch_.tail.bytes + wanted + stitch_.fresh_bytes + stitch_.head.bytes - bytes;
  if (best_->whole == 0 || (best_->tail != nullptr && best_->head != nullptr)) {
    if (best_->head != nullptr) {
      stitch_.head.bytes -= surplus;
    } else {
      stitch_.tail.address += surplus;
      stitch_.tail.bytes -= surplus;
    }
  } else if (best_->head != nullptr) {
    if (stitch_.whole.empty()) {
      stitch_.fresh_skipped_bytes = surplus;
      stitch_.fresh_bytes -= surplus;
    } else {
      stitch_.whole.front().address += surplus;
      stitch_.whole.front().bytes -= surplus;
    }
  } else if (stitch_.fresh_granules > 0) {
    stitch_.fresh_bytes -= surplus;
  } else {
    stitch_.whole.back().bytes -= surplus;
  }
}

}  // namespace berth
