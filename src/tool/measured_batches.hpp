// SPDX-License-Identifier: Apache-2.0
// Batches of ranges between a device and pinned memory, timed in each way that a Copier can make
// them.
#pragma once

#include <cstddef>
#include <vector>

#include "berth/runtime.hpp"

#include "tool/batch_settings.hpp"

namespace berth::tool {

/// The sizes of ranges that are measured, ascending.
std::vector<std::size_t> measured_range_sizes();

/// `repeats` batches in each way, 1 or more, after an untimed one. `direction` is `in` or `out`.
/// Errors  Those of Runtime's parts.
MeasuredBatch measure_batch(Runtime& runtime, Device device, CopyDirection direction,
                            std::size_t range_bytes, int repeats);

}  // namespace berth::tool
