// SPDX-License-Identifier: Apache-2.0
// Whether this process can read or write a byte, as the kernel reports it. The byte does not
// change.
#pragma once

#include <cstddef>

namespace berth {

/// The smallest page size: bytes of one such page have the same access.
inline constexpr std::size_t kPageBytes = 4096;

/// Whether the byte can be read, by one system call, which reads the aligned eight bytes around it.
/// Source: abseil, address_is_readable: rt_sigprocmask() reads the set before it rejects the
/// operation.
bool is_readable(const void* address) noexcept;

/// Whether the byte can be written, by one system call, which atomically adds 0 to the four bytes
/// around it, so that no write of another thread is lost. If a kernel or sandbox refuses the call,
/// whether it can be read.
/// Source: futex(2), FUTEX_WAKE_OP: EFAULT if the second word cannot be written. No thread waits
/// for either word.
bool is_writable(const void* address) noexcept;

/// The first or the last of `bytes` bytes; null if both can be read, or written.
const void* find_unreadable(const void* data, std::size_t bytes) noexcept;
const void* find_unwritable(const void* data, std::size_t bytes) noexcept;

inline bool are_readable(const void* data, std::size_t bytes) noexcept {
  return find_unreadable(data, bytes) == nullptr;
}
inline bool are_writable(const void* data, std::size_t bytes) noexcept {
  return find_unwritable(data, bytes) == nullptr;
}

}  // namespace berth
