// SPDX-License-Identifier: Apache-2.0
#include "base/process_memory.hpp"

#include <cerrno>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arithmetic.hpp"

namespace berth {
namespace {

constexpr std::size_t kSetBytes = 8;  // the kernel's size of a signal set
constexpr long kNothing = -1;         // not a valid operation on it

/// Whether the kernel can read a signal set at this address, which may cross a page.
bool can_read_set(std::uintptr_t set) noexcept {
  if (set == 0) return false;  // for the kernel, null is no set
  const int before = errno;
  const long refused = syscall(SYS_rt_sigprocmask, kNothing, set, nullptr, kSetBytes);
  const bool readable = refused == 0 || errno != EFAULT;
  errno = before;
  return readable;
}

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

bool is_readable(const void* data) noexcept {
  return can_read_set(align_down(address(data), kSetBytes));
}

bool is_writable(const void* data) noexcept {
  const std::uintptr_t word = align_down(address(data), sizeof(std::uint32_t));
  if (word == 0) return false;
  const std::uint32_t word_without_waiters = 0;
  constexpr int kAddNothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  const int before = errno;
  const long woken = syscall(SYS_futex, &word_without_waiters, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
                             0L, 0L, word, kAddNothing);
  const int error = woken < 0 ? errno : 0;
  errno = before;
  if (error == 0 || error == EFAULT) return error == 0;
  return is_readable(data);  // the call is not available
}

const void* find_unreadable(const void* data, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::byte* const last = first + bytes - 1;
  const std::uintptr_t page = align_down(address(first), kPageBytes);
  const std::uintptr_t last_page = align_down(address(last), kPageBytes);
  // One system call for two pages: half of the set is in each.
  if (last_page == page + kPageBytes && can_read_set(last_page - kSetBytes / 2)) return nullptr;
  if (!is_readable(first)) return first;
  return page == last_page || is_readable(last) ? nullptr : last;
}

const void* find_unwritable(const void* data, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::byte* const last = first + bytes - 1;
  if (!is_writable(first)) return first;
  const bool is_one_page =
      align_down(address(first), kPageBytes) == align_down(address(last), kPageBytes);
  return is_one_page || is_writable(last) ? nullptr : last;
}

}  // namespace berth
