// SPDX-License-Identifier: Apache-2.0
// memcpy between staging memory and the rest of the host's memory: pieces of some hundred KiB.
#pragma once

#include <cstddef>

namespace berth {

/// The ranges do not overlap. Other threads see what is written as after any memcpy.
void host_memcpy(void* target, const void* source, std::size_t bytes);

}  // namespace berth
