// SPDX-License-Identifier: Apache-2.0
// memcpy between staging memory and the rest of the host's: pieces of some hundred KiB, whose
// target this processor does not look at again. Which instructions are the fastest differs from
// processor to processor and from one direction to the other, by a tenth and more: the first pieces
// try them all, and the rest go with the best (bench/host_memcpy.cpp).
#pragma once

#include <cstddef>

namespace berth {

/// The ranges do not overlap. What is written can be seen by other threads as after any memcpy.
void memcpy_to_staging(void* staging, const void* source, std::size_t bytes);
/// The same.
void memcpy_from_staging(void* target, const void* staging, std::size_t bytes);

}  // namespace berth
