// SPDX-License-Identifier: Apache-2.0
// Copies by the driver, each in as few calls as possible. All functions are called within a
// ContextScope of the stream's device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "berth/copy_range.hpp"
#include "berth/stream.hpp"

namespace berth {

class DeviceContext;

/// The devices of both sides if both sides are device memory; otherwise both are null.
struct DevicePair {
  DeviceContext* to = nullptr;
  DeviceContext* from = nullptr;

  DevicePair() = default;
  DevicePair(DeviceContext* target, DeviceContext* source) {
    if (target == nullptr || source == nullptr) return;
    to = target;
    from = source;
  }
  [[nodiscard]] bool are_different() const { return to != from; }
  [[nodiscard]] bool are_same() const { return to == from && to != nullptr; }
};

/// Which ranges may share a driver call: those of `range_bytes_min` or more; none if nullopt.
struct Batching {
  std::optional<std::size_t> range_bytes_min;

  [[nodiscard]] bool includes(std::size_t range_bytes) const {
    return range_bytes_min && range_bytes >= *range_bytes_min;
  }
  [[nodiscard]] bool includes_all() const { return range_bytes_min == 0; }
};
constexpr Batching kNoBatching{std::nullopt};

/// One contiguous range.
/// Errors  DriverError.
void submit_linear(std::byte* to, const std::byte* from, std::size_t bytes,
                   const DevicePair& devices, StreamRef stream);

/// `rows` rows of `row_bytes`, a pitch apart. Row by row between two devices, and if a pitch
/// exceeds the driver's maximum.
/// Errors  DriverError: some rows may be pending.
void submit_rows(const PitchedTarget& to, const PitchedSource& from, std::size_t row_bytes,
                 std::size_t rows, const DevicePair& devices, StreamRef stream);

/// Whether the driver accepts several ranges on the stream in one call: not on the legacy stream,
/// nor between devices, whose contexts a batch cannot name.
[[nodiscard]] bool takes_batch(const DevicePair& devices, StreamRef stream);

/// Independent ranges: those that `batching` includes in one call if the driver accepts the batch,
/// all others one by one.
/// Errors  DriverError: some may be pending.
void submit_ranges(std::span<const CopyRange> ranges, const DevicePair& devices, Batching batching,
                   StreamRef stream);

}  // namespace berth
