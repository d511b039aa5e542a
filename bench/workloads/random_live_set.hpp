// SPDX-License-Identifier: Apache-2.0
// A steady load: one of a fixed number of live blocks, at random, is freed and replaced by one of a
// random size. Sizes are log-uniform, so that each power of two is as frequent as the next. The
// sequence is the same for each allocator, on each machine.
#pragma once

#include <cstddef>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/block.hpp"
#include "workloads/random_sizes.hpp"

namespace berth::bench {

/// The steps of RandomLiveSet, drawn beforehand so that the timed loop draws no numbers.
struct Replacements {
  struct Step {
    std::size_t slot;
    std::size_t bytes;
  };
  std::size_t blocks_live;
  std::vector<Step> steps;  ///< used cyclically

  explicit Replacements(std::size_t live) : blocks_live(live), steps(kSteps) {
    RandomSizes bytes(kSizes);
    for (Step& step : steps) {
      step.bytes = bytes.next();
      step.slot = bytes.below(live);
    }
  }

 private:
  static constexpr SizeRange kSizes{"log_512B_4MiB", 512, 4_MiB, true};
  static constexpr std::size_t kSteps = 1 << 17;
};

template <class Allocator>
class RandomLiveSet {
 public:
  /// Fills the set and replaces each block twice, after which caches are in steady state.
  RandomLiveSet(Allocator& allocator, const Replacements& replacements, StreamRef stream)
      : RandomLiveSet(stream, allocator, replacements) {  // so that a failure here frees the blocks
    for (Block& block : blocks_) allocate(allocator_, block, next().bytes, stream_);
    for (std::size_t warmed = 0; warmed < 2 * blocks_.size(); ++warmed) step();
  }
  ~RandomLiveSet() { deallocate_all(allocator_, blocks_, stream_); }
  RandomLiveSet(const RandomLiveSet&) = delete;
  RandomLiveSet& operator=(const RandomLiveSet&) = delete;

  void step() {
    const auto [slot, bytes] = next();
    deallocate(allocator_, blocks_[slot], stream_);
    allocate(allocator_, blocks_[slot], bytes, stream_);
  }

 private:
  RandomLiveSet(StreamRef stream, Allocator& allocator, const Replacements& replacements)
      : allocator_(allocator),
        replacements_(replacements),
        stream_(stream),
        blocks_(replacements.blocks_live) {}

  Replacements::Step next() {
    const Replacements::Step step = replacements_.steps[position_];
    if (++position_ == replacements_.steps.size()) position_ = 0;
    return step;
  }

  Allocator& allocator_;
  const Replacements& replacements_;
  StreamRef stream_;
  std::vector<Block> blocks_;
  std::size_t position_ = 0;
};

}  // namespace berth::bench
