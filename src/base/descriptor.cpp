// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/resource.h>

namespace berth {

std::string descriptor_shortage() {
  const Descriptor opened(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (opened.is_open()) return {};
  if (errno == ENFILE) {
    return "this machine has no file descriptor left (ENFILE, /proc/sys/fs/file-max)";
  }
  if (errno != EMFILE) return {};
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return "this process has no file descriptor left (EMFILE): all " +
         (is_known ? std::to_string(limit.rlim_cur) : "") +
         " that it may have (RLIMIT_NOFILE) are open";
}

}  // namespace berth
