// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_file.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/format.hpp"
#include "trace/host_limit.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

[[noreturn]] void reject_reading(const std::string& path, std::string_view why) {
  reject_trace(path, format_text("cannot be read: {}; accepted: a readable regular file", why));
}

const char* describe_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "Is a directory";
  if (S_ISFIFO(mode)) return "Is a pipe";
  if (S_ISSOCK(mode)) return "Is a socket";
  return "Is a device";
}

}  // namespace

std::string read_trace_file(const std::string& path, std::uint64_t host_bytes_max) {
  if (path.find('\0') != std::string::npos) reject_reading(path, "its name has a zero byte");
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) reject_reading(path, std::strerror(errno));
  struct stat status {};
  if (fstat(file.number(), &status) != 0) reject_reading(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) reject_reading(path, describe_kind(status.st_mode));

  std::string content;
  const auto require_room = [&](std::uint64_t bytes) {
    if (bytes > host_bytes_max) reject_trace(path, describe_large_content(host_bytes_max));
  };
  // Some files, such as those under /proc, have content although their size is 0.
  require_room(static_cast<std::uint64_t>(status.st_size));
  content.reserve(static_cast<std::size_t>(status.st_size));
  std::string chunk(kReadBytes, '\0');
  for (;;) {
    const ssize_t size = read(file.number(), chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) reject_reading(path, std::strerror(errno));
    if (size == 0) return content;
    require_room(content.size() + static_cast<std::size_t>(size));
    content.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace berth
