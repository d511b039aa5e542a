// SPDX-License-Identifier: Apache-2.0
// memcpy between staging memory and the rest of the host's: pieces of some hundred KiB, whose target
// this processor does not look at again. Which instructions are the fastest was measured
// (bench/host_memcpy.cpp): towards staging memory, which the device reads out of the cache, `rep movsb`;
// back, towards memory that would only push other things out of the cache, stores past the cache.
#pragma once

#include <cstddef>

namespace berth {

/// The ranges do not overlap.
void memcpy_to_staging(void* staging, const void* source, std::size_t bytes);
/// The same. What is written can be seen by other threads as after any memcpy.
void memcpy_from_staging(void* target, const void* staging, std::size_t bytes);

}  // namespace berth
