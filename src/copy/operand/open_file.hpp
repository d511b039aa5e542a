// SPDX-License-Identifier: Apache-2.0
// An open file with cached I/O and, if the file system supports it, direct I/O (O_DIRECT). O_DIRECT
// is a property of the descriptor, so there are two descriptors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "berth/file.hpp"

#include "base/descriptor.hpp"

namespace berth {

/// Errors   FileError.
/// Threads  Safe from any thread.
class OpenFile {
 public:
  enum class Use : bool { reading, writing };

  /// O_DIRECT is used only if it accepts multiples of this as offset, length and address.
  static constexpr std::size_t kBlockBytes = 4096;

  OpenFile(std::string path, Use use, FileCaching caching);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Use use() const { return use_; }
  [[nodiscard]] FileCaching caching() const { return caching_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Errors  InvalidArgument: the file is open for the other use.
  void require(Use use) const;
  /// Throws if [offset, offset + bytes) wraps around, or exceeds a file that is read.
  void check_range(std::uint64_t offset, std::size_t bytes) const;

  // Through the page cache.
  void read(std::byte* target, std::size_t bytes, std::uint64_t offset) const;
  void write(const std::byte* source, std::size_t bytes, std::uint64_t offset) const;

  // Past the page cache.
  [[nodiscard]] bool has_direct() const { return has_direct_.load(std::memory_order_relaxed); }
  /// Whether O_DIRECT accepts memory at this address.
  [[nodiscard]] bool can_be_direct(const void* memory) const;
  /// Reads whole blocks. At least `needed` of `bytes` must exist, because a file may end within a
  /// block. Returns false, without effect, if the system rejects direct I/O; with
  /// FileCaching::direct this is an error.
  bool try_read_direct(std::byte* target, std::size_t bytes, std::size_t needed,
                       std::uint64_t offset) const;
  /// Writes whole multiples of write_granule_bytes().
  void write_direct(const std::byte* source, std::size_t bytes, std::uint64_t offset) const;
  /// The unit of direct writes. No page of the cache may overlap a unit partly, because its
  /// write-back would overwrite the unit.
  [[nodiscard]] std::size_t write_granule_bytes() const { return write_granule_bytes_; }

  void sync() const;

  /// Through the page cache.
  [[nodiscard]] int descriptor() const { return cached_.number(); }

 private:
  Descriptor open_direct();
  /// Queries the requirements of O_DIRECT. False if they cannot be met. Unknown requirements keep
  /// their defaults.
  bool query_direct_requirements();
  /// Whether to fall back to the page cache from now on instead of failing.
  bool falls_back_to_cache(int error) const;
  [[noreturn]] void fail(std::size_t bytes, std::uint64_t offset, const std::string& why) const;
  [[noreturn]] void fail_with(std::size_t bytes, std::uint64_t offset, int error) const;
  [[noreturn]] void fail_at_end(std::size_t bytes, std::uint64_t offset) const;

  const std::string path_;
  const Use use_;
  const FileCaching caching_;
  const Descriptor cached_;
  std::size_t memory_alignment_ = kBlockBytes;  ///< required by O_DIRECT
  std::size_t write_granule_bytes_ = kBlockBytes;
  const Descriptor direct_;  ///< the same file with O_DIRECT
  mutable std::atomic<bool> has_direct_ = false;
};

}  // namespace berth
