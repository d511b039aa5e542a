// SPDX-License-Identifier: Apache-2.0
// How much each workload may waste: the one table to tighten as the allocator improves. Nothing
// here depends on the machine, so a bar stands close to what is measured.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "berth/bytes.hpp"

namespace berth::test {

struct TraceBars {
  std::string_view trace;        ///< how its name begins
  double waste_percent;          ///< in the first pass
  double waste_pass10_percent;   ///< in ten passes
  std::size_t squeezed_refused;  ///< requests, on a device of the peak and 2 %
  std::uint64_t pass4_calls;     ///< of the driver
};

// The last line is the goal for every trace; those before it are what does not reach it yet.
inline constexpr std::array kTraceBars = {
    // Ten streams that take turns in holding the same memory must ask the driver each time whether
    // they are done with it, and first whether they may be asked.
    TraceBars{"llama7b-offload-10streams", 2, 2, 0, 620},
    TraceBars{"mixtral-train", 2, 2.4, 0, 0},
    TraceBars{"", 2, 2, 0, 0},
};
inline constexpr std::size_t kTraceBytesWasted = 16_MiB;  ///< always allowed

/// Of the first passes of all traces, where there are at least so many. berth's own alone are six
/// of the hardest: small programs of large blocks, with a median of 1.4 %.
inline constexpr double kMedianWastePercent = 0.3;
inline constexpr std::size_t kTracesForMedian = 15;
inline constexpr double kMedianWastePercentOfFew = 1.5;

/// In the order of bench::kRandomWasteSizes.
inline constexpr std::array kRandomWastePercent = {2.0, 2.5, 0.7};

inline constexpr double kCheckerboardWastePercent = 1;

inline const TraceBars& bars_of(std::string_view trace) {
  return *std::ranges::find_if(
      kTraceBars, [trace](const TraceBars& bars) { return trace.starts_with(bars.trace); });
}

}  // namespace berth::test
