// SPDX-License-Identifier: Apache-2.0
// Memory that no driver knows is treated as host memory. If it does not exist, for example an
// address of freed device memory, a thread that copied it would crash the process.
#pragma once

#include <cstddef>

namespace berth {

/// Whether the byte can be read, by one system call, which reads the aligned eight bytes around it.
/// Source: abseil, address_is_readable: rt_sigprocmask() reads the set before it refuses what to do
/// with it.
bool is_readable(const void* address) noexcept;

/// Whether the byte can be written, by one system call, which atomically adds 0 to the four bytes
/// around it, so that no write of another thread is lost. If a kernel or sandbox refuses the call,
/// whether it can be read.
/// Source: futex(2), FUTEX_WAKE_OP: EFAULT if the second word cannot be written. No thread waits
/// for either word.
bool is_writable(const void* address) noexcept;

/// Check the first and the last byte.
bool are_readable(const void* data, std::size_t bytes) noexcept;
bool are_writable(const void* data, std::size_t bytes) noexcept;

/// Check the first and the last byte.
/// Errors  InvalidArgument: one of them cannot be read, or written.
void require_readable(const void* data, std::size_t bytes);
void require_writable(const void* data, std::size_t bytes);

}  // namespace berth
