// SPDX-License-Identifier: Apache-2.0
// Files as a side of a copy: a range of one is read into device memory, or written from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "berth/export.h"

namespace berth {

class OpenFile;

/// How copies between a file and a device read and write the file.
enum class FileCaching : std::uint8_t {
  /// What is in the page cache is read from there, and the rest past it, where the file system lets us:
  /// that leaves the cache to others, and reads faster. Writes go through the page cache.
  automatic,
  cached,  ///< through the page cache
  /// Past the page cache, by O_DIRECT, but for the pages that a written range covers in part.
  direct,
};

/// An open file: a regular one, or a device that is read and written at offsets. A value: copies are of
/// the same open file, which is closed with the last of them. A transfer keeps its own.
///
/// Blocking  Every function waits for the disk.
/// Errors    FileError, with the path and what the system says. InvalidArgument: read what is open to
///           write, or the other way; a path with a null in it.
/// Threads   Safe from any thread, also in a child made by fork().
class BERTH_API File {
 public:
  /// Errors  FileError: also a directory, a pipe, and FileCaching::direct where the file system has no
  ///         O_DIRECT, or wants more than multiples of 4 KiB for it.
  [[nodiscard]] static File open_to_read(const std::string& path,
                                         FileCaching caching = FileCaching::automatic);
  /// Makes the file where there is none; one that is there keeps its content. What is written beyond its
  /// end extends it.
  /// Errors  Likewise.
  [[nodiscard]] static File open_to_write(const std::string& path,
                                          FileCaching caching = FileCaching::automatic);

  // Copying declared, and no moving: a File always has its file.
  File(const File&) = default;
  File& operator=(const File&) = default;
  ~File() = default;

  /// As it was given.
  [[nodiscard]] const std::string& path() const noexcept;
  /// In bytes, now.
  [[nodiscard]] std::uint64_t size() const;

  // Between the file and host memory, on the calling thread, through the page cache. 0 bytes is no
  // operation.
  /// Errors  FileError: the file ends before `offset + bytes`, too.
  void read(void* target, std::size_t bytes, std::uint64_t offset) const;
  void write(const void* source, std::size_t bytes, std::uint64_t offset) const;
  /// Returns when all that has been written is on the disk, to be found again after a loss of power. A
  /// copy that is under way is not waited for.
  void sync() const;

  /// For Copier.
  [[nodiscard]] const OpenFile& open_file() const noexcept { return *file_; }

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
