// SPDX-License-Identifier: Apache-2.0
// Reports the bytes of a file that are in the page cache, without reading any. A read that does not
// wait (RWF_NOWAIT) would make the kernel read ahead the missing bytes, which would then be read
// twice.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth {

class OpenFile;

/// One range of a file, which is mapped but never accessed, because the file may be truncated
/// meanwhile.
/// Threads  Safe from any thread.
class PageCacheView {
 public:
  /// Never fails. is_known() is false if the kernel does not report cached pages, as for files of
  /// another user that this process may not write. Source: can_do_mincore() of Linux 5.2 and later.
  PageCacheView(const OpenFile& file, std::uint64_t offset, std::size_t bytes) noexcept;
  ~PageCacheView();
  PageCacheView(const PageCacheView&) = delete;
  PageCacheView& operator=(const PageCacheView&) = delete;

  [[nodiscard]] bool is_known() const { return data_ != nullptr; }
  /// Whether most of [offset, offset + bytes) of the range is cached, by a page of each 128 KiB;
  /// true if unknown.
  [[nodiscard]] bool is_mostly_cached(std::size_t offset, std::size_t bytes) const noexcept;

 private:
  std::size_t page_bytes_;
  std::size_t before_;  ///< bytes of the first page before the stretch
  std::size_t mapped_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace berth
