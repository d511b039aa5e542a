// SPDX-License-Identifier: Apache-2.0
// Memory that no driver knows is treated as host memory. If it does not exist, such as an address
// that a device had once, a thread that copied it would end the process.
#pragma once

#include <cstddef>

namespace berth {

/// Whether a byte can be read there, by one system call. Of the eight around it, which share a
/// page.
/// Source: abseil, address_is_readable: rt_sigprocmask() reads the set before it refuses what to do
/// with it.
bool is_readable(const void* address) noexcept;

/// Of the first and the last byte.
bool are_readable(const void* data, std::size_t bytes) noexcept;

/// Looks at the first and the last byte.
/// Errors  InvalidArgument: one of them cannot be read.
void require_readable(const void* data, std::size_t bytes);

}  // namespace berth
