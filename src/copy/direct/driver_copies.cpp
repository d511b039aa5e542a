// SPDX-License-Identifier: Apache-2.0
#include "copy/direct/driver_copies.hpp"

#include <algorithm>
#include <vector>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

/// CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device so far.
constexpr std::size_t kPitchMax = 2'147'483'647;
/// If no copy of a batch is larger, the driver may overlap them with work of the multiprocessors.
/// Source: rapidsai/cudf, pull request 23675.
constexpr std::size_t kOverlapBytesMax = 128_KiB;

CUdeviceptr device_address(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

/// Submits the ranges that `batching` includes in one call. False if fewer than two are included,
/// or the driver rejects the batch; nothing has been submitted then.
bool try_submit_batch(std::span<const CopyRange> ranges, Batching batching, StreamRef stream) {
  const Driver& driver = stream.context().driver();
  std::vector<CUdeviceptr> targets;
  std::vector<CUdeviceptr> sources;
  std::vector<std::size_t> sizes;
  for (const CopyRange& range : ranges) {
    if (!batching.includes(range.bytes)) continue;
    targets.push_back(device_address(range.target));
    sources.push_back(device_address(range.source));
    sizes.push_back(range.bytes);
  }
  if (sizes.size() < 2) return false;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const bool are_small =
      std::ranges::all_of(sizes, [](std::size_t bytes) { return bytes <= kOverlapBytesMax; });
  attributes.flags = are_small ? CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE : 0;
  std::size_t first = 0;
  const CUresult result =
      driver.try_memcpy_batch_async(targets.data(), sources.data(), sizes.data(), sizes.size(),
                                    &attributes, &first, std::size_t{1}, stream.native());
  if (result == CUDA_ERROR_NOT_SUPPORTED) return false;
  if (result != CUDA_SUCCESS) driver.raise(DriverCall::memcpy_batch_async, result);
  return true;
}

}  // namespace

bool takes_batch(const DevicePair& devices, StreamRef stream) {
  return !devices.are_different() && !stream.is_legacy_default() &&
         stream.context().driver().has(DriverCall::memcpy_batch_async);
}

void submit_linear(std::byte* to, const std::byte* from, std::size_t bytes,
                   const DevicePair& devices, StreamRef stream) {
  BERTH_CHECK(bytes > 0);
  const Driver& driver = stream.context().driver();
  if (devices.are_different()) {
    driver.memcpy_peer_async(device_address(to), devices.to->primary(), device_address(from),
                             devices.from->primary(), bytes, stream.native());
  } else {
    driver.memcpy_async(device_address(to), device_address(from), bytes, stream.native());
  }
}

void submit_rows(const PitchedTarget& to, const PitchedSource& from, std::size_t row_bytes,
                 std::size_t rows, const DevicePair& devices, StreamRef stream) {
  BERTH_CHECK(rows > 0);
  // Rows of a side that overlap would be copied over each other.
  BERTH_CHECK(rows == 1 || row_bytes <= std::min(to.pitch, from.pitch));
  auto* const target = static_cast<std::byte*>(to.data);
  const auto* const source = static_cast<const std::byte*>(from.data);
  if (rows == 1 || (to.pitch == row_bytes && from.pitch == row_bytes)) {
    submit_linear(target, source, rows * row_bytes, devices, stream);
    return;
  }
  if (devices.are_different() || std::max(to.pitch, from.pitch) > kPitchMax) {
    for (std::size_t row = 0; row < rows; ++row)
      submit_linear(target + row * to.pitch, source + row * from.pitch, row_bytes, devices, stream);
    return;
  }
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = device_address(source);
  copy.srcPitch = from.pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = device_address(target);
  copy.dstPitch = to.pitch;
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  stream.context().driver().memcpy_2d_async(&copy, stream.native());
}

void submit_ranges(std::span<const CopyRange> ranges, const DevicePair& devices, Batching batching,
                   StreamRef stream) {
  const bool is_batched = ranges.size() > 1 && takes_batch(devices, stream) &&
                          try_submit_batch(ranges, batching, stream);
  for (const CopyRange& range : ranges) {
    if (is_batched && batching.includes(range.bytes)) continue;
    submit_linear(static_cast<std::byte*>(range.target),
                  static_cast<const std::byte*>(range.source), range.bytes, devices, stream);
  }
}

}  // namespace berth
