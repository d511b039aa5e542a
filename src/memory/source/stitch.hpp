// SPDX-License-Identifier: Apache-2.0
// Page remap, the choice: free pieces that make a block when their granules are mapped side by
// side, if no hole is large enough.
//
// A stitched block consists of, in this order, the free end of a granule whose beginning is in use
// (tail), whole free granules, and the free beginning of a granule whose end is in use (head). Any
// of them may be absent. New memory supplies missing granules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "heap/block_heap.hpp"

namespace berth {

struct Stitch {
  Extent tail;                ///< 0 bytes if there is none; likewise `head`
  std::vector<Extent> whole;  ///< by address; the first may lack bytes in front, the last behind
  Extent head;
  std::size_t fresh_granules = 0;       ///< behind `whole`
  std::size_t fresh_skipped_bytes = 0;  ///< of them, in front, not used
  std::size_t fresh_bytes = 0;          ///< used
  double left_behind = 0;  ///< unused bytes of the pieces, weighted by their usefulness
};

/// Guarded by the lock of the allocator that it belongs to.
class Stitcher {
 public:
  /// The remainder of whole granules serves any request; the remainder of pieces hardly any.
  /// Measured on recorded traces: any factor between 0.1 and 0.5 gives the same result.
  static constexpr double kWorthOfWholeGranules = 0.25;

  explicit Stitcher(std::size_t granule_bytes) : granule_bytes_(granule_bytes) {}

  /// The best stitch of `bytes` from free memory of `owner` and unowned memory: the fewest new
  /// granules; among these the fewest whole granules, which serve any request; among these the
  /// least left behind, judged by some pairs of pieces. Unowned granules supplement the owner's.
  /// Pieces of small blocks are considered only if no other stitch is possible. At most `fresh_max`
  /// granules are new; null if there is no such stitch. Valid until the heap changes.
  const Stitch* choose(const BlockHeap& heap, std::size_t bytes, OwnerId owner,
                       std::size_t fresh_max);

 private:
  struct Candidate {
    std::size_t fresh;  ///< granules
    std::size_t whole;  ///< granules, new ones included
    double left_behind;
    Extent tail;  ///< no source if there is none; likewise `head`
    Extent head;
  };

  /// Of the owner and unowned.
  [[nodiscard]] Extent at_least(GranuleIndex::Kind kind, std::size_t bytes,
                                std::uintptr_t from = 0) const;
  void consider(std::size_t bytes, std::size_t whole, const Extent& tail, const Extent& head);
  void consider_all(std::size_t bytes);
  void consider_pairs(std::size_t bytes, std::size_t whole);
  [[nodiscard]] bool is_large_enough(const Extent& piece) const {
    return piece.source->bytes >= block_bytes_min_;
  }
  void build(std::size_t bytes);

  const std::size_t granule_bytes_;
  const GranuleIndex* index_ = nullptr;
  std::array<const GranuleIndex::Holes*, 2> holes_{};
  std::size_t whole_granules_ = 0;
  std::size_t fresh_max_ = 0;
  std::size_t block_bytes_min_ = 0;  ///< of blocks whose pieces are considered
  std::optional<Candidate> best_;
  Stitch stitch_;
};

}  // namespace berth
