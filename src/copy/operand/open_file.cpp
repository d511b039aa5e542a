// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/open_file.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/check_choice.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {
namespace {

using Use = OpenFile::Use;

/// Larger block sizes are hints of network file systems, not units of the page cache.
constexpr std::size_t kCacheBlockBytesMax = 64_KiB;

constexpr const char* kWithoutOffsets =
    "it has no offsets; accepted: a regular file, or a block device";

std::string text_of(int error) {
  return std::generic_category().message(error);
}

const char* verb(Use use) {
  return use == Use::reading ? "read" : "write";
}

[[noreturn]] void fail_to_open(const std::string& path, Use use, const std::string& why) {
  throw FileError(format_text("cannot open {} to {}: {}", on_one_line(path), verb(use), why));
}

int flags_of(Use use) {
  return O_CLOEXEC | (use == Use::reading ? O_RDONLY : O_WRONLY);
}

FileCaching checked(FileCaching caching) {
  check_choice("FileCaching", caching, {"automatic", "cached", "direct"});
  return caching;
}

Descriptor open_cached(const std::string& path, Use use) {
  if (path.find('\0') != std::string::npos)
    throw InvalidArgument("a path contains a null character, which is not accepted");
  const int create = use == Use::writing ? O_CREAT : 0;
  // Otherwise opening a pipe would wait for its other end.
  Descriptor file(::open(path.c_str(), flags_of(use) | create | O_NONBLOCK, 0666));
  struct stat about {};
  if (!file.is_open() && errno == ENXIO && ::stat(path.c_str(), &about) == 0 &&
      (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode))) {
    fail_to_open(path, use, kWithoutOffsets);
  }
  if (!file.is_open()) fail_to_open(path, use, text_of(errno));
  if (::fstat(file.number(), &about) != 0) fail_to_open(path, use, text_of(errno));
  if (S_ISDIR(about.st_mode)) fail_to_open(path, use, "it is a directory; accepted: a file");
  if (::lseek(file.number(), 0, SEEK_CUR) < 0) {
    fail_to_open(path, use, kWithoutOffsets);
  }
  if (S_ISCHR(about.st_mode) && use == Use::reading) {
    fail_to_open(path, use,
                 "it is a character device, which has no end; accepted: a regular file, or a block "
                 "device");
  }
  ::fcntl(file.number(), F_SETFL, ::fcntl(file.number(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

bool is_same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

}  // namespace

OpenFile::OpenFile(std::string path, Use use, FileCaching caching)
    : path_(std::move(path)),
      use_(use),
      caching_(checked(caching)),
      cached_(open_cached(path_, use)),
      direct_(open_direct()) {
  has_direct_ = direct_.is_open();
}

Descriptor OpenFile::open_direct() {
  // The page cache accepts writes at the speed of memory; the disk is slower in any case.
  const bool wanted = caching_ == FileCaching::direct ||
                      (caching_ == FileCaching::automatic && use_ == Use::reading);
  if (!wanted) return Descriptor();
  const auto refuse = [this](const std::string& why) {
    if (caching_ != FileCaching::direct) return Descriptor();
    fail_to_open(path_, use_,
                 "FileCaching::direct: " + why + "; accepted here: automatic, and cached");
  };
  if (!query_direct_requirements())
    return refuse("the file system has no O_DIRECT in multiples of 4 KiB");
  Descriptor file(::open(path_.c_str(), flags_of(use_) | O_DIRECT));
  if (!file.is_open()) return refuse("with O_DIRECT: " + text_of(errno));
  if (!is_same_file(file.number(), cached_.number()))
    return refuse("the path has become another file's");
  return file;
}

bool OpenFile::query_direct_requirements() {
  write_granule_bytes_ = std::max(kBlockBytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
#ifdef STATX_DIOALIGN
  struct statx about {};
  const unsigned wanted = STATX_BASIC_STATS | STATX_DIOALIGN;
  if (::statx(cached_.number(), "", AT_EMPTY_PATH, wanted, &about) != 0) return true;
  if (about.stx_blksize <= kCacheBlockBytesMax && std::has_single_bit(about.stx_blksize))
    write_granule_bytes_ = std::max<std::size_t>(write_granule_bytes_, about.stx_blksize);
  if ((about.stx_mask & STATX_DIOALIGN) == 0)
    return true;  // unknown: open() fails if O_DIRECT is not supported
  const auto does = [](std::size_t bytes) { return bytes != 0 && kBlockBytes % bytes == 0; };
  if (!does(about.stx_dio_mem_align) || !does(about.stx_dio_offset_align)) return false;
  memory_alignment_ = about.stx_dio_mem_align;
#endif
  return true;
}

void OpenFile::fail(std::size_t bytes, std::uint64_t offset, const std::string& why) const {
  throw FileError(format_text("cannot {} {} B at offset {} of {}: {}", verb(use_), bytes, offset,
                              on_one_line(path_), why));
}

void OpenFile::fail_with(std::size_t bytes, std::uint64_t offset, int error) const {
  fail(bytes, offset, text_of(error));
}

void OpenFile::fail_at_end(std::size_t bytes, std::uint64_t offset) const {
  fail(bytes, offset, format_text("it ends at {} B", size()));
}

std::uint64_t OpenFile::size() const {
  const off_t end = ::lseek(cached_.number(), 0, SEEK_END);  // no call uses the position
  if (end >= 0) return static_cast<std::uint64_t>(end);
  throw FileError(format_text("cannot find the end of {}: {}", on_one_line(path_), text_of(errno)));
}

void OpenFile::require(Use use) const {
  if (use == use_) return;
  throw InvalidArgument(format_text("cannot {} {}: it is open to {}; accepted: one of File::{}",
                                    verb(use), on_one_line(path_), verb(use_),
                                    use == Use::reading ? "open_to_read()" : "open_to_write()"));
}

void OpenFile::check_range(std::uint64_t offset, std::size_t bytes) const {
  constexpr std::uint64_t kEndMax = std::numeric_limits<off_t>::max();
  if (offset > kEndMax || bytes > kEndMax - offset)
    fail(bytes, offset, format_text("no file goes beyond {} B", kEndMax));
  if (use_ == Use::reading && offset + bytes > size()) fail_at_end(bytes, offset);
}

void OpenFile::read(std::byte* target, std::size_t bytes, std::uint64_t offset) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(cached_.number(), target + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(bytes, offset, errno);
    if (got == 0) fail_at_end(bytes, offset);
    done += static_cast<std::size_t>(got);
  }
}

void OpenFile::write(const std::byte* source, std::size_t bytes, std::uint64_t offset) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put =
        ::pwrite(cached_.number(), source + done, bytes - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_with(bytes, offset, put < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(put);
  }
}

bool OpenFile::can_be_direct(const void* memory) const {
  return reinterpret_cast<std::uintptr_t>(memory) % memory_alignment_ == 0;
}

bool OpenFile::falls_back_to_cache(int error) const {
  // Some file systems accept O_DIRECT in open() but reject reads and writes. Disks cannot access
  // some memory that drivers map.
  const bool is_refused = error == EINVAL || error == EFAULT || error == EOPNOTSUPP;
  if (caching_ == FileCaching::direct || !is_refused) return false;
  has_direct_.store(false, std::memory_order_relaxed);
  return true;
}

bool OpenFile::try_read_direct(std::byte* target, std::size_t bytes, std::size_t needed,
                               std::uint64_t offset) const {
  BERTH_CHECK(needed <= bytes && bytes % kBlockBytes == 0 && offset % kBlockBytes == 0);
  std::size_t done = 0;
  // A partial block is the last one: the file ends there, or ended there a moment ago.
  while (done < needed && done % kBlockBytes == 0) {
    const ssize_t got =
        ::pread(direct_.number(), target + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && done == 0 && falls_back_to_cache(errno)) return false;
    if (got < 0) fail_with(needed, offset, errno);
    if (got == 0) fail_at_end(needed, offset);
    done += static_cast<std::size_t>(got);
  }
  if (done < needed) read(target + done, needed - done, offset + done);
  return true;
}

void OpenFile::write_direct(const std::byte* source, std::size_t bytes,
                            std::uint64_t offset) const {
  BERTH_CHECK(bytes % write_granule_bytes_ == 0 && offset % write_granule_bytes_ == 0);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put =
        ::pwrite(direct_.number(), source + done, bytes - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_with(bytes, offset, put < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(put);
    if (done % kBlockBytes != 0) return write(source + done, bytes - done, offset + done);
  }
}

void OpenFile::sync() const {
  if (::fsync(cached_.number()) == 0) return;
  throw FileError(
      format_text("cannot sync {} to its disk: {}", on_one_line(path_), text_of(errno)));
}

}  // namespace berth
