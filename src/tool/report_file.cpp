// SPDX-License-Identifier: Apache-2.0
#include "tool/report_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"

namespace berth::tool {

// O_NONBLOCK: a pipe without a reader is an error, not a wait.
ReportFile::ReportFile(const std::string& path, const char* option) : path_(path) {
  if (path.empty()) return;
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
  file_ = open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  is_new_ = file_ >= 0;
  if (!is_new_) file_ = open(path.c_str(), kFlags | O_CREAT, 0666);  // EEXIST, also of a link
  if (file_ < 0)
    throw UsageError(fmt::format("{}: {} cannot be written: {}", option, quoted_argument(path),
                                 std::generic_category().message(errno)));
  fcntl(file_, F_SETFL, 0);
}

ReportFile::~ReportFile() {
  if (file_ < 0) return;
  close(file_);
  if (is_new_) unlink(path_.c_str());
}

void ReportFile::write(std::string_view text) {
  is_new_ = false;
  struct stat about {};
  const bool has_content = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
  bool is_written = !has_content || ftruncate(file_, 0) == 0;
  while (is_written && !text.empty()) {
    const ssize_t bytes = ::write(file_, text.data(), text.size());
    is_written = bytes >= 0 || errno == EINTR;
    if (bytes > 0) text.remove_prefix(static_cast<std::size_t>(bytes));
  }
  if (!is_written)
    throw std::runtime_error(fmt::format("{}: cannot be written: {}", printable(path_),
                                         std::generic_category().message(errno)));
}

}  // namespace berth::tool
