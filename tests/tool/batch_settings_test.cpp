// SPDX-License-Identifier: Apache-2.0
#include "tool/batch_settings.hpp"

#include <cstddef>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

namespace batch_settings_test {

using namespace berth;
using namespace berth::tool;

namespace {

/// Rates of a range size, in GB/s.
struct Rates {
  double together;
  double one_by_one;
  double packed;
};

/// A machine on which ranges of up to 64 KiB were measured in both directions.
std::vector<MeasuredBatch> machine(const std::function<Rates(std::size_t range_bytes)>& rates) {
  std::vector<MeasuredBatch> batches;
  for (const CopyDirection direction : {CopyDirection::in, CopyDirection::out}) {
    for (const std::size_t bytes : {1_KiB, 4_KiB, 7_KiB, 28_KiB, 64_KiB}) {
      const Rates each = rates(bytes);
      const double packed = direction == CopyDirection::out ? each.packed : 0;
      batches.push_back({.direction = direction,
                         .range_bytes = bytes,
                         .bytes_per_second = {each.together, each.one_by_one, packed}});
    }
  }
  return batches;
}

}  // namespace

TEST_CASE("the defaults are kept unless other settings are faster by more than 5 %") {
  const BatchSettings settings = fastest_settings(machine([](std::size_t bytes) {
    return Rates{10, 10.4, bytes <= 7_KiB ? 10 : 10.4};
  }));
  CHECK(settings.batched_range_bytes_min == CopierOptions().batched_range_bytes_min);
  CHECK(settings.packed_range_bytes_max == CopierOptions().packed_range_bytes_max);
}

TEST_CASE("small ranges are copied individually if batch calls are slow for them") {
  const BatchSettings settings = fastest_settings(machine([](std::size_t bytes) {
    return Rates{bytes < 28_KiB ? 5.0 : 42.0, 12, bytes <= 4_KiB ? 20.0 : 8.0};
  }));
  CHECK(settings.batched_range_bytes_min == 28_KiB);
  CHECK(settings.packed_range_bytes_max == 4_KiB);
}

TEST_CASE("no range is batched or packed if single copies are faster for all sizes") {
  const BatchSettings settings = fastest_settings(machine([](std::size_t) {
    return Rates{10, 20, 10};
  }));
  CHECK_FALSE(settings.batched_range_bytes_min.has_value());
  CHECK(settings.packed_range_bytes_max == 0);
}

TEST_CASE("all ranges are packed if packing is fastest") {
  const BatchSettings settings = fastest_settings(machine([](std::size_t) {
    return Rates{10, 5, 20};
  }));
  CHECK(settings.batched_range_bytes_min == 0);
  CHECK(settings.packed_range_bytes_max == 64_KiB);
}

TEST_CASE("an outlier among the sizes is ignored") {
  const BatchSettings settings = fastest_settings(machine([](std::size_t bytes) {
    return Rates{bytes == 4_KiB ? 9.0 : 20.0, 10, 1};
  }));
  CHECK(settings.batched_range_bytes_min == 0);
  CHECK(settings.packed_range_bytes_max == 0);
}

TEST_CASE("without measurements the settings are the defaults") {
  CHECK(fastest_settings({}).packed_range_bytes_max == CopierOptions().packed_range_bytes_max);
}

}  // namespace batch_settings_test
