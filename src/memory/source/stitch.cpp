// SPDX-License-Identifier: Apache-2.0
#include "memory/source/stitch.hpp"

#include <algorithm>
#include <tuple>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// Smaller requests fit between other blocks, so pieces of granules are not stitched for them.
constexpr std::size_t kBytesInPiecesMin = std::size_t{64} << 10;

/// Pieces of blocks smaller than this fraction of the bytes that whole granules lack are not
/// considered, unless no other stitch is possible. A request of whole granules lacks none.
constexpr std::size_t kPieceShare = 16;

/// A heap may have very many pieces, and other threads wait meanwhile. The tails that are tried are
/// spread over all sizes, because the smallest ones alone fit few heads.
constexpr int kTailsTried = 256;
constexpr int kHeadsTried = 8;

bool is_smaller(const Extent& a, const Extent& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
}

}  // namespace

Extent Stitcher::at_least(GranuleIndex::Kind kind, std::size_t bytes, std::uintptr_t from) const {
  const Extent own = index_->at_least(kind, *holes_[0], bytes, from);
  const Extent unowned = index_->at_least(kind, *holes_[1], bytes, from);
  if (own.source == nullptr || unowned.source == nullptr) {
    return own.source == nullptr ? unowned : own;
  }
  return is_smaller(own, unowned) ? own : unowned;
}

void Stitcher::consider(std::size_t bytes, std::size_t whole, const Extent& tail,
                        const Extent& head) {
  const std::size_t fresh = whole > whole_granules_ ? whole - whole_granules_ : 0;
  if (fresh > fresh_max_) return;
  const std::size_t left = tail.bytes + whole * granule_bytes_ + head.bytes - bytes;
  const bool in_whole_granules = whole > 0 && (tail.bytes == 0 || head.bytes == 0);
  const double left_behind =
      static_cast<double>(left) * (in_whole_granules ? kWorthOfWholeGranules : 1.0);
  const auto rank = [](const Candidate& each) {
    return std::tie(each.fresh, each.whole, each.left_behind);
  };
  const Candidate candidate{fresh, whole, left_behind, tail, head};
  if (!best_ || rank(candidate) < rank(*best_)) best_ = candidate;
}

/// A tail and a head that supply the bytes that `whole` granules lack, with the least left over.
void Stitcher::consider_pairs(std::size_t bytes, std::size_t whole) {
  using enum GranuleIndex::Kind;
  const std::size_t wanted = bytes - whole * granule_bytes_;
  const std::size_t longest =
      std::max(index_->largest(head, *holes_[0]).bytes, index_->largest(head, *holes_[1]).bytes);
  const std::size_t least = wanted > longest ? wanted - longest : 1;
  Extent next = at_least(tail, least);
  for (int tried = 1; tried <= kTailsTried && next.bytes > 0 && next.bytes < wanted; ++tried) {
    if (is_large_enough(next)) {
      Extent rest = at_least(head, wanted - next.bytes);
      for (int heads = 1; heads < kHeadsTried && rest.bytes > 0 && !is_large_enough(rest);
           ++heads) {
        rest = at_least(head, rest.bytes, rest.end());
      }
      if (rest.bytes > 0 && is_large_enough(rest)) consider(bytes, whole, next, rest);
    }
    const std::size_t step = (wanted - least) / kTailsTried * static_cast<std::size_t>(tried);
    next = next.bytes < least + step ? at_least(tail, least + step)
                                     : at_least(tail, next.bytes, next.end());
  }
}

const Stitch* Stitcher::choose(const BlockHeap& heap, std::size_t bytes, OwnerId owner,
                               std::size_t fresh_max) {
  static const GranuleIndex::Holes none;
  index_ = &heap.holes();
  holes_ = {&heap.free_blocks(owner).holes(),
            owner == kUnowned ? &none : &heap.free_blocks(kUnowned).holes()};
  whole_granules_ = holes_[0]->whole_granules + holes_[1]->whole_granules;
  fresh_max_ = fresh_max;
  best_.reset();
  const std::size_t rest = bytes % granule_bytes_;
  const std::size_t worthy = rest > 0 ? rest / kPieceShare : granule_bytes_;
  for (const std::size_t bytes_min : {worthy, std::size_t{0}}) {
    block_bytes_min_ = bytes_min;
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
  consider(bytes, whole + (rest > 0 ? 1 : 0), {}, {});
  if (bytes < kBytesInPiecesMin) return;
  if (rest > 0) {
    const Extent tail = at_least(GranuleIndex::Kind::tail, rest);
    if (tail.bytes > 0) consider(bytes, whole, tail, {});
    const Extent head = at_least(GranuleIndex::Kind::head, rest);
    if (head.bytes > 0) consider(bytes, whole, {}, head);
    consider_pairs(bytes, whole);
  }
  if (whole > 0) consider_pairs(bytes, whole - 1);
}

void Stitcher::build(std::size_t bytes) {
  const std::size_t wanted = (best_->whole - best_->fresh) * granule_bytes_;
  stitch_.tail = best_->tail;
  stitch_.head = best_->head;
  stitch_.whole.clear();
  // The owner's own first, of these the smallest ranges, which are least useful to others. Then by
  // address, because identical sets of granules must be mapped in the same order to be found again.
  std::size_t missing = wanted;
  for (const GranuleIndex::Holes* holes : holes_) {
    for (Extent range; missing > 0; missing -= stitch_.whole.back().bytes) {
      range = index_->at_least(GranuleIndex::Kind::range, *holes, range.bytes + (range.bytes == 0),
                               range.end());
      if (range.bytes == 0) break;
      stitch_.whole.push_back(range);
      stitch_.whole.back().bytes = std::min(range.bytes, missing);
    }
  }
  BERTH_CHECK(missing == 0);
  std::sort(stitch_.whole.begin(), stitch_.whole.end(),
            [](const Extent& a, const Extent& b) { return a.address < b.address; });
  stitch_.fresh_granules = best_->fresh;
  stitch_.left_behind = best_->left_behind;
  stitch_.fresh_bytes = best_->fresh * granule_bytes_;
  stitch_.fresh_skipped_bytes = 0;

  // The surplus is less than a granule and is cut off at an end: from a piece if there are two, so
  // that the block stays in one; otherwise from the whole granules, at the end without a piece.
  std::size_t surplus =
      stitch_.tail.bytes + wanted + stitch_.fresh_bytes + stitch_.head.bytes - bytes;
  if (best_->whole == 0 || (best_->tail.bytes > 0 && best_->head.bytes > 0)) {
    if (best_->head.bytes > 0) {
      stitch_.head.bytes -= surplus;
    } else {
      stitch_.tail.address += surplus;
      stitch_.tail.bytes -= surplus;
    }
  } else if (best_->head.bytes > 0) {
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
