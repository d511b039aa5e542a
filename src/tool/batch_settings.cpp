// SPDX-License-Identifier: Apache-2.0
#include "tool/batch_settings.hpp"

#include <algorithm>
#include <cmath>

namespace berth::tool {
namespace {

constexpr double kNoise = 0.05;

BatchWay way_of(const MeasuredBatch& batch, const BatchSettings& settings) {
  const bool is_packed =
      batch.direction == CopyDirection::out && batch.range_bytes <= settings.packed_range_bytes_max;
  if (is_packed) return BatchWay::packed;
  const bool is_together =
      settings.batched_range_bytes_min && batch.range_bytes >= *settings.batched_range_bytes_min;
  return is_together ? BatchWay::together : BatchWay::one_by_one;
}

/// By how much the settings are slower than the fastest way of each batch: a sum of logarithms, so
/// that each range size has the same weight.
double total_loss(const std::vector<MeasuredBatch>& batches, const BatchSettings& settings) {
  double loss = 0;
  for (const MeasuredBatch& batch : batches) {
    const double best = *std::ranges::max_element(batch.bytes_per_second);
    const double chosen = batch.rate(way_of(batch, settings));
    if (chosen < (1 - kNoise) * best) loss += std::log(best / chosen);
  }
  return loss;
}

}  // namespace

BatchSettings fastest_settings(const std::vector<MeasuredBatch>& batches) {
  std::vector<std::size_t> thresholds{0};
  for (const MeasuredBatch& each : batches) thresholds.push_back(each.range_bytes);
  std::vector<BatchSettings> candidates{BatchSettings{}};
  for (const std::size_t packed_max : thresholds) {
    for (const std::size_t batched_min : thresholds)
      candidates.push_back(
          {.batched_range_bytes_min = batched_min, .packed_range_bytes_max = packed_max});
    candidates.push_back(
        {.batched_range_bytes_min = std::nullopt, .packed_range_bytes_max = packed_max});
  }
  // The first of several minima: the defaults, if no other candidate is better.
  return *std::ranges::min_element(
      candidates, {}, [&](const BatchSettings& settings) { return total_loss(batches, settings); });
}

}  // namespace berth::tool
