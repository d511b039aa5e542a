// SPDX-License-Identifier: Apache-2.0
// Which bytes of a file are in the page cache. Asking reads nothing: a read that does not wait
// (RWF_NOWAIT) would have the kernel read ahead of what it does not find, which is then read twice.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth {

class OpenFile;

/// Of one stretch of a file, which is mapped for that and never touched: the file may be cut short
/// meanwhile.
/// Threads  Safe from any thread.
class PageCacheView {
 public:
  /// Nothing fails: where the kernel does not tell, as of files of others that we may only read,
  /// is_known() is false. Source: can_do_mincore() of Linux 5.2 and later.
  PageCacheView(const OpenFile& file, std::uint64_t offset, std::size_t bytes) noexcept;
  ~PageCacheView();
  PageCacheView(const PageCacheView&) = delete;
  PageCacheView& operator=(const PageCacheView&) = delete;

  [[nodiscard]] bool is_known() const { return data_ != nullptr; }
  /// Whether most of [offset, offset + bytes) of the stretch is there; of what is not known that is
  /// taken to be so.
  [[nodiscard]] bool has_most(std::size_t offset, std::size_t bytes) const noexcept;

 private:
  std::size_t page_bytes_;
  std::size_t before_;  ///< bytes of the first page that are not of the stretch
  std::size_t mapped_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace berth
