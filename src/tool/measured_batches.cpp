// SPDX-License-Identifier: Apache-2.0
#include "tool/measured_batches.hpp"

#include <algorithm>
#include <limits>

#include "berth/bytes.hpp"

#include "tool/fastest_run.hpp"
#include "tool/host_buffer.hpp"

namespace berth::tool {
namespace {

constexpr std::size_t kBatchBytesMax = 32_MiB;
constexpr std::size_t kRangesMax = 1024;
/// Between two ranges on the host, so that they are not copied as one. On the device they are
/// contiguous, as packing requires.
constexpr std::size_t kGap = 256;

CopierOptions options_of(BatchWay way) {
  CopierOptions options;
  options.batched_range_bytes_min =
      way == BatchWay::together ? std::optional<std::size_t>(0) : std::nullopt;
  options.packed_range_bytes_max =
      way == BatchWay::packed ? std::numeric_limits<std::size_t>::max() : 0;
  return options;
}

std::vector<CopyRange> scattered(std::byte* host, std::byte* device, CopyDirection direction,
                                 std::size_t range_bytes, std::size_t count) {
  std::vector<CopyRange> ranges;
  for (std::size_t index = 0; index < count; ++index) {
    std::byte* const on_host = host + index * (range_bytes + kGap);
    std::byte* const on_device = device + index * range_bytes;
    if (direction == CopyDirection::in)
      ranges.push_back({on_device, on_host, range_bytes});
    else
      ranges.push_back({on_host, on_device, range_bytes});
  }
  return ranges;
}

}  // namespace

std::vector<std::size_t> measured_range_sizes() {
  return {1_KiB, 2_KiB, 4_KiB, 7_KiB, 12_KiB, 20_KiB, 28_KiB, 64_KiB, 256_KiB};
}

MeasuredBatch measure_batch(Runtime& runtime, Device device, CopyDirection direction,
                            std::size_t range_bytes, int repeats) {
  const std::size_t count = std::min(kRangesMax, kBatchBytesMax / range_bytes);
  const StreamLease stream = runtime.streams(device).acquire();
  HostBuffer host(runtime.pinned_memory(), count * (range_bytes + kGap));
  const Allocation memory = runtime.memory(device).allocate(count * range_bytes, stream);
  auto* const on_device = static_cast<std::byte*>(memory.data());
  const auto ranges = scattered(host.bytes().data(), on_device, direction, range_bytes, count);

  MeasuredBatch result{.direction = direction, .range_bytes = range_bytes};
  for (const BatchWay way : {BatchWay::together, BatchWay::one_by_one, BatchWay::packed}) {
    if (way == BatchWay::packed && direction == CopyDirection::in) continue;
    Copier copier(runtime.devices(), runtime.pinned_memory(), runtime.host_memory(),
                  runtime.completions(), options_of(way));
    const double seconds =
        fastest_seconds(repeats, [&] { copier.start_batch(ranges, stream).wait(); });
    result.bytes_per_second[static_cast<std::size_t>(way)] =
        static_cast<double>(count * range_bytes) / seconds;
  }
  return result;
}

}  // namespace berth::tool
