// SPDX-License-Identifier: Apache-2.0
// The state of one allocator as text.
#pragma once

#include <string>

#include "berth/memory_snapshot.hpp"

namespace berth {

/// Appends lines of at most 80 columns: reserved memory and its use, fragmentation, the gauges, and
/// the totals that are not zero.
void append_memory_text(std::string& text, const MemorySnapshot& snapshot);

}  // namespace berth
