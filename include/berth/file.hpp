// SPDX-License-Identifier: Apache-2.0
// Files as one side of a copy: a range of a file is read into device memory, or written from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "berth/cpp20.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

namespace berth {

class OpenFile;

/// How copies between a file and a device read and write the file.
enum class FileCaching : std::uint8_t {
  /// Reads cached pages from the page cache, and the rest directly if the file system supports it,
  /// which is faster and leaves the cache to others. Writes go through the page cache.
  automatic,
  cached,  ///< through the page cache
  /// By O_DIRECT, without the page cache, except for pages that a written range covers in part.
  direct,
};

/// An open file: a regular file, a block device, or, to write, also a character device such as
/// /dev/null. A value: copies share the open file, which is closed with the last of them. A
/// transfer holds its own copy. Empty if default-constructed or moved from.
///
/// Blocking  Every function waits for the disk.
/// Errors    FileError, with the path and the system's error text. InvalidArgument: a read of a
///           file that is open to write, or a write of one that is open to read; a path that
///           contains a null byte; an empty File, for every function but assignment, destruction
///           and the conversion to bool.
/// Threads   Safe from any thread, also in a child made by fork().
class BERTH_API File {
 public:
  /// Opens an existing file to read.
  /// Errors  FileError: also a directory, a pipe, a character device, or FileCaching::direct if the
  ///         file system has no O_DIRECT or requires larger multiples than 4 KiB for it.
  [[nodiscard]] static File open_to_read(const std::string& path,
                                         FileCaching caching = FileCaching::automatic);
  /// Opens a file to write. Creates it if it does not exist; an existing file keeps its content.
  /// Writes beyond the end extend it.
  /// Errors  As open_to_read().
  [[nodiscard]] static File open_to_write(const std::string& path,
                                          FileCaching caching = FileCaching::automatic);

  /// Empty.
  File() noexcept = default;

  /// Whether it has an open file.
  explicit operator bool() const noexcept { return file_ != nullptr; }
  /// As passed to open_to_read() or open_to_write().
  [[nodiscard]] const std::string& path() const;
  /// Current size in bytes.
  [[nodiscard]] std::uint64_t size() const;

  // Copies between the file and host memory on the calling thread, through the page cache. `offset`
  // is a position in the file, in bytes. 0 bytes: no effect.
  /// Errors  FileError: also if the file ends before `offset` + the size of `target`. The content
  ///         of `target` is undefined then.
  void read(std::span<std::byte> target, std::uint64_t offset) const;
  /// Errors  FileError: some of the bytes may have been written.
  void write(std::span<const std::byte> source, std::uint64_t offset) const;
  /// Returns when all written data is on the disk and survives a loss of power. Does not wait for
  /// copies in progress.
  void sync() const;

  /// For Copier.
  [[nodiscard]] const OpenFile& open_file() const {
    if (file_ == nullptr) detail::refuse_empty("file");
    return *file_;
  }

 private:
  explicit File(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const OpenFile> file_;
};

/// Bytes [offset, offset + bytes) of a file.
struct FileRange {
  File file;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

}  // namespace berth
