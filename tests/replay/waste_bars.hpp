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

// The last line is the goal for every trace. Those before it are what holds until live pages can be
// joined where they are; each that is no longer needed goes.
inline constexpr std::array kTraceBars = {
    TraceBars{"bert-infer-original", 3.6, 3.6, 0, 0},
    TraceBars{"decomfl-zeroth-order-train", 2.5, 2.5, 0, 0},
    TraceBars{"detect-train", 7.4, 7.4, 0, 0},
    TraceBars{"dynamo-cudagraph-viz", 2, 2.6, 0, 0},
    TraceBars{"llama7b-offload-10streams", 7.5, 17.6, 0, 132},
    TraceBars{"lm-small-fwd", 3.4, 3.4, 0, 0},
    TraceBars{"lm2.7b-ctx256-trainstep", 3.2, 9.7, 0, 302},
    TraceBars{"mixtral-train", 11.4, 13.2, 3, 0},
    TraceBars{"nca3d-cholec-infer", 14.2, 14.2, 0, 0},
    TraceBars{"nca3d-notebook", 31.0, 37.6, 0, 0},
    TraceBars{"npu-cnn-train", 6.8, 6.8, 3, 0},
    TraceBars{"resnet50-train", 4.1, 4.1, 3, 0},
    TraceBars{"sqattn-qwen2-compress", 9.5, 9.5, 0, 0},
    TraceBars{"vit-finetune", 4.4, 6.3, 2, 0},
    TraceBars{"", 2, 2, 0, 0},
};
inline constexpr std::size_t kTraceBytesWasted = 16_MiB;  ///< always allowed

inline constexpr double kMedianWastePercent = 4.2;  ///< of all traces' first passes; goal: 0.3

/// In the order of bench::kRandomWasteSizes.
inline constexpr std::array kRandomWastePercent = {1.9, 25.9, 68.1};  ///< goal: 2.0, 2.5, 0.7

inline constexpr double kCheckerboardWastePercent = 150;  ///< goal: 1

inline const TraceBars& bars_of(std::string_view trace) {
  return *std::ranges::find_if(
      kTraceBars, [trace](const TraceBars& bars) { return trace.starts_with(bars.trace); });
}

}  // namespace berth::test
