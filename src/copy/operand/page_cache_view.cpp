// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/page_cache_view.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arithmetic.hpp"
#include "copy/operand/open_file.hpp"

namespace berth {
namespace {

/// The kernel reports all pages of other users' files as cached.
bool mincore_is_reliable(const OpenFile& file) {
  struct stat about {};
  if (::fstat(file.descriptor(), &about) != 0) return false;
  return about.st_uid == ::geteuid() ||
         ::faccessat(AT_FDCWD, file.path().c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace

PageCacheView::PageCacheView(const OpenFile& file, std::uint64_t offset, std::size_t bytes) noexcept
    : page_bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
      before_(offset % page_bytes_),
      mapped_bytes_(before_ + bytes) {
  if (!mincore_is_reliable(file)) return;
  void* const data = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file.descriptor(),
                            static_cast<off_t>(offset - before_));
  if (data != MAP_FAILED) data_ = static_cast<std::byte*>(data);
}

PageCacheView::~PageCacheView() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

bool PageCacheView::is_mostly_cached(std::size_t offset, std::size_t bytes) const noexcept {
  if (data_ == nullptr) return true;
  constexpr std::size_t kPagesAtATime = 256;
  std::array<unsigned char, kPagesAtATime> is_there{};
  const std::size_t first = (before_ + offset) / page_bytes_;
  const std::size_t end =
      align_up(std::min(before_ + offset + bytes, mapped_bytes_), page_bytes_) / page_bytes_;
  std::size_t there = 0;
  for (std::size_t page = first; page < end; page += kPagesAtATime) {
    const std::size_t pages = std::min(kPagesAtATime, end - page);
    if (::mincore(data_ + page * page_bytes_, pages * page_bytes_, is_there.data()) != 0)
      return true;
    there += static_cast<std::size_t>(std::count_if(is_there.begin(), is_there.begin() + pages,
                                                    [](unsigned char bits) { return bits & 1; }));
  }
  return 2 * there >= end - first;
}

}  // namespace berth
