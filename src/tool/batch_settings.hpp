// SPDX-License-Identifier: Apache-2.0
// The options of a Copier that make batches of copies fastest, given measurements of each way.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "berth/copier_options.hpp"

#include "tool/measured_copies.hpp"

namespace berth::tool {

enum class BatchWay {
  together,    ///< one driver call
  one_by_one,  ///< a driver call for each range
  packed,      ///< one driver call to staging memory, from which the host distributes
};
inline constexpr std::size_t kBatchWays = 3;

struct MeasuredBatch {
  CopyDirection direction = CopyDirection::in;  ///< or `out`
  std::size_t range_bytes = 0;
  /// The fastest batch in each way, from the call to the end of the wait. 0: not available.
  std::array<double, kBatchWays> bytes_per_second{};

  [[nodiscard]] double rate(BatchWay way) const {
    return bytes_per_second[static_cast<std::size_t>(way)];
  }
};

/// The options of a Copier that choose the way, with their defaults.
struct BatchSettings {
  std::optional<std::size_t> batched_range_bytes_min = CopierOptions().batched_range_bytes_min;
  std::size_t packed_range_bytes_max = CopierOptions().packed_range_bytes_max;
};

/// The settings whose ways are the fastest, all sizes and directions together. A difference of 5 %
/// is noise. The defaults are kept unless others are faster.
BatchSettings fastest_settings(const std::vector<MeasuredBatch>& batches);

}  // namespace berth::tool
