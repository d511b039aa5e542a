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

/// Whether a byte can be written there, by one system call, which adds 0 to the four bytes around
/// it in one atomic step: no write of another thread is lost. A kernel or sandbox that refuses the
/// call is asked whether the byte can be read.
/// Source: futex(2), FUTEX_WAKE_OP: EFAULT where the second word cannot be written. Nobody waits
/// for either.
bool is_writable(const void* address) noexcept;

/// Of the first and the last byte.
bool are_readable(const void* data, std::size_t bytes) noexcept;
bool are_writable(const void* data, std::size_t bytes) noexcept;

/// Look at the first and the last byte.
/// Errors  InvalidArgument: one of them cannot be read, or written.
void require_readable(const void* data, std::size_t bytes);
void require_writable(const void* data, std::size_t bytes);

}  // namespace berth
