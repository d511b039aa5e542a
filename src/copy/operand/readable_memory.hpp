// SPDX-License-Identifier: Apache-2.0
// Memory that no driver knows is treated as host memory. If it is not mapped, for example because
// it is freed device memory, accessing it would crash the process.
#pragma once

#include <cstddef>

namespace berth {

/// Check the first and the last byte.
/// Errors  InvalidArgument: one of them cannot be read, or written.
void require_readable(const void* data, std::size_t bytes);
void require_writable(const void* data, std::size_t bytes);

}  // namespace berth
