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

constexpr std::size_t kSetBytes = 8;  // of a set of signals, to the kernel
constexpr long kNothing = -1;         // nothing that may be done with one

}  // namespace

bool is_readable(const void* address) noexcept {
  const auto set = align_down(reinterpret_cast<std::uintptr_t>(address), kSetBytes);
  if (set == 0) return false;  // to the kernel that is no set
  const int before = errno;
  const long refused = syscall(SYS_rt_sigprocmask, kNothing, set, nullptr, kSetBytes);
  const bool readable = refused == 0 || errno != EFAULT;
  errno = before;
  return readable;
}

void require_readable(const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const std::byte* const end : {first, first + bytes - 1}) {
    if (is_readable(end)) continue;
    throw InvalidArgument(
        fmt::format("{} with {} B is memory of no device, and this process cannot read it at {}; "
                    "accepted: memory "
                    "that is there, of a device or of the host",
                    data, bytes, fmt::ptr(end)));
  }
}

}  // namespace berth
