// SPDX-License-Identifier: Apache-2.0
// Tests of many combinations run a part of them with a sanitizer, which makes each several times
// slower, unless BERTH_TEST_LONG is set (./run test --long). Without a sanitizer they run all.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "support/sanitizers.hpp"

namespace berth::test {

inline bool is_thinned() {
  return kIsSanitized && std::getenv("BERTH_TEST_LONG") == nullptr;
}

/// Asked once for each combination, in nested loops too.
class Thinned {
 public:
  /// One in `one_in` is run. A prime that divides no number of values of a loop, so that each value
  /// is run.
  explicit Thinned(std::size_t one_in) : one_in_(is_thinned() ? one_in : 1) {}

  [[nodiscard]] bool skips() { return asked_++ % one_in_ != 0; }
  /// The step of a loop that counts, and runs each number without a sanitizer.
  [[nodiscard]] int step() const { return static_cast<int>(one_in_); }
  /// Of a number that all combinations have, that of the part.
  [[nodiscard]] std::size_t part_of(std::size_t all) const { return all / one_in_; }

 private:
  const std::size_t one_in_;
  std::size_t asked_ = 0;
};

}  // namespace berth::test
