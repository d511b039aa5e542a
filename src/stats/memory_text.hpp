// SPDX-License-Identifier: Apache-2.0
// One allocator's state as text: where its memory is.
#pragma once

#include <string>

#include "berth/memory_snapshot.hpp"

namespace berth {

/// Appends lines of at most 80 columns: what is reserved and for what, how it is fragmented, the
/// gauges, the totals that are not zero.
void append_memory_text(std::string& text, const MemorySnapshot& snapshot);

}  // namespace berth
