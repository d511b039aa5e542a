// SPDX-License-Identifier: Apache-2.0
#include "tool/report_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"

namespace berth::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;

/// The file to which links lead, which need not exist; empty if it is reached by a descriptor, as
/// /dev/stdout is, so that others write to the same file.
std::string without_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kLinksMax; ++links) {
    const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
    if (error || folder.native().starts_with("/proc/")) return "";
    path = folder / path.filename();
    if (!fs::is_symlink(path, error)) return path.string();
    path = folder / fs::read_symlink(path, error);
    if (error) return "";
  }
  return "";
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = ::write(file, text.data(), text.size());
    if (bytes < 0 && errno != EINTR) return false;
    if (bytes > 0) text.remove_prefix(static_cast<std::size_t>(bytes));
  }
  return true;
}

/// Gives `file` the owner and the permissions of the file that it replaces, or those of a new file.
void take_permissions(int file, const std::string& replaced) {
  struct stat about {};
  if (stat(replaced.c_str(), &about) == 0) {
    static_cast<void>(!fchown(file, about.st_uid, about.st_gid));
  } else {
    const mode_t withheld = umask(0);
    umask(withheld);
    about.st_mode = 0666 & ~withheld;
  }
  fchmod(file, about.st_mode & 0777);
}

}  // namespace

// O_NONBLOCK: a pipe without a reader is an error, not a wait.
ReportFile::ReportFile(const std::string& path, const char* option) : path_(path) {
  if (path.empty()) return;
  target_ = without_links(path);
  const std::string opened = target_.empty() ? path : target_;
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
  file_ = open(opened.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  const bool is_new = file_ >= 0;
  if (!is_new) file_ = open(opened.c_str(), kFlags | O_CREAT, 0666);  // EEXIST
  if (file_ < 0)
    throw UsageError(fmt::format("{}: {} cannot be written: {}", option, quoted_argument(path),
                                 std::generic_category().message(errno)));
  fcntl(file_, F_SETFL, 0);
  if (is_new) unlink(opened.c_str());
  struct stat about {};
  if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) target_.clear();
  if (!target_.empty()) close(std::exchange(file_, -1));
}

ReportFile::~ReportFile() {
  if (file_ >= 0) close(file_);
}

void ReportFile::write(std::string_view text) {
  if (target_.empty() || !replace(text)) write_in_place(text);
}

bool ReportFile::replace(std::string_view text) {
  std::string name = target_ + ".XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return false;
  take_permissions(file, target_);
  bool is_written = write_all(file, text);
  is_written = close(file) == 0 && is_written;
  if (is_written && rename(name.c_str(), target_.c_str()) == 0) return true;
  const int reason = errno;
  unlink(name.c_str());
  errno = reason;
  fail();
}

void ReportFile::write_in_place(std::string_view text) {
  if (file_ < 0) file_ = open(target_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  struct stat about {};
  const bool has_content = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
  if ((has_content && ftruncate(file_, 0) != 0) || !write_all(file_, text)) fail();
}

void ReportFile::fail() const {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", printable(path_),
                                       std::generic_category().message(errno)));
}

}  // namespace berth::tool
