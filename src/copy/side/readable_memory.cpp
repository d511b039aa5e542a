// SPDX-License-Identifier: Apache-2.0
#include "copy/side/readable_memory.hpp"

#include <cerrno>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "berth/error.hpp"

#include "base/arithmetic.hpp"

namespace berth {
namespace {

constexpr std::size_t kSetBytes = 8;         // of a set of signals, to the kernel
constexpr long kNothing = -1;                // nothing that may be done with one
constexpr std::uintptr_t kPageBytes = 4096;  // of the smallest pages

/// Whether the kernel can read the set of signals there, which may cross a page.
bool can_read_set(std::uintptr_t set) noexcept {
  if (set == 0) return false;  // to the kernel that is no set
  const int before = errno;
  const long refused = syscall(SYS_rt_sigprocmask, kNothing, set, nullptr, kSetBytes);
  const bool readable = refused == 0 || errno != EFAULT;
  errno = before;
  return readable;
}

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// The first or the last byte; null if both can be read.
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

}  // namespace

bool is_readable(const void* data) noexcept {
  return can_read_set(align_down(address(data), kSetBytes));
}

bool are_readable(const void* data, std::size_t bytes) noexcept {
  return find_unreadable(data, bytes) == nullptr;
}

void require_readable(const void* data, std::size_t bytes) {
  const void* const missing = find_unreadable(data, bytes);
  if (missing == nullptr) return;
  throw InvalidArgument(
      fmt::format("{} with {} B is memory of no device, and this process cannot read it at {}; "
                  "accepted: memory that is there, of a device or of the host",
                  data, bytes, missing));
}

}  // namespace berth
