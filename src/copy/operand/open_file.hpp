// SPDX-License-Identifier: Apache-2.0
// A file that is open, through the page cache and, where the file system lets us, past it: two file
// descriptors of one file, as O_DIRECT belongs to the descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "berth/file.hpp"

namespace berth {

/// Closes a file descriptor; -1: there is none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// Errors   FileError.
/// Threads  Safe from any thread.
class OpenFile {
 public:
  enum class Use : bool { reading, writing };

  /// Multiples of this do for O_DIRECT as offset, length and address, or it is not used.
  static constexpr std::size_t kBlockBytes = 4096;

  OpenFile(std::string path, Use use, FileCaching caching);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Use use() const { return use_; }
  [[nodiscard]] FileCaching caching() const { return caching_; }
  [[nodiscard]] std::uint64_t size() const;
  /// Errors  InvalidArgument: it is open for the other use.
  void require(Use use) const;
  /// Fails where [offset, offset + bytes) wraps around, or is beyond the end of a file to read.
  void check_range(std::uint64_t offset, std::size_t bytes) const;

  // Through the page cache.
  void read(std::byte* target, std::size_t bytes, std::uint64_t offset) const;
  void write(const std::byte* source, std::size_t bytes, std::uint64_t offset) const;

  // Past the page cache.
  [[nodiscard]] bool has_direct() const { return has_direct_.load(std::memory_order_relaxed); }
  /// Whether memory at this address will do.
  [[nodiscard]] bool can_be_direct(const void* memory) const;
  /// Reads whole blocks; of `bytes` at least `needed` have to be there, as a file may end within a
  /// block. False, and nothing is done, where the system refuses after all; under
  /// FileCaching::direct that fails.
  bool try_read_direct(std::byte* target, std::size_t bytes, std::size_t needed,
                       std::uint64_t offset) const;
  /// Writes whole multiples of write_granule_bytes().
  void write_direct(const std::byte* source, std::size_t bytes, std::uint64_t offset) const;
  /// What of a file is written past the page cache is made of multiples of this: no page of the
  /// cache may hold a part of it, which would be written back over it.
  [[nodiscard]] std::size_t write_granule_bytes() const { return write_granule_bytes_; }

  void sync() const;

  /// Through the page cache.
  [[nodiscard]] int descriptor() const { return cached_.number(); }

 private:
  Descriptor open_direct();
  /// False where they cannot be met. What the system does not tell stays as it is.
  bool note_direct_needs();
  /// Whether the system has refused what is not worth a failure.
  bool gives_up_direct(int error) const;
  [[noreturn]] void fail(std::size_t bytes, std::uint64_t offset, const std::string& why) const;
  [[noreturn]] void fail_with(std::size_t bytes, std::uint64_t offset, int error) const;
  [[noreturn]] void fail_at_end(std::size_t bytes, std::uint64_t offset) const;

  const std::string path_;
  const Use use_;
  const FileCaching caching_;
  const Descriptor cached_;
  std::size_t memory_alignment_ = kBlockBytes;  ///< that O_DIRECT wants
  std::size_t write_granule_bytes_ = kBlockBytes;
  const Descriptor direct_;  ///< of the same file
  mutable std::atomic<bool> has_direct_ = false;
};

}  // namespace berth
