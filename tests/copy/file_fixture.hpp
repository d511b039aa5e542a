// SPDX-License-Identifier: Apache-2.0
// Files on a disk and in memory, with a known content.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/file.hpp"

#include "copy/copy_fixture.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace berth::test {

inline constexpr FileCaching kCachings[] = {FileCaching::automatic, FileCaching::cached,
                                            FileCaching::direct};

inline std::span<std::byte> bytes_at(void* data, std::size_t bytes) {
  return {static_cast<std::byte*>(data), bytes};
}
inline std::span<const std::byte> bytes_at(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

inline void write_file(const std::string& path, const Bytes& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(content.data()), std::streamsize(content.size()));
  REQUIRE(file.flush());
}

inline Bytes read_file(const std::string& path) {
  Bytes content(std::filesystem::file_size(path));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(content.data()), std::streamsize(content.size()));
  REQUIRE(file.gcount() == std::streamsize(content.size()));
  return content;
}

/// Folders of different file systems, as far as this machine has them: where temporary files go,
/// and memory.
inline std::vector<std::filesystem::path> parent_folders() {
  std::vector<std::filesystem::path> folders{std::filesystem::temp_directory_path()};
  if (access("/dev/shm", W_OK) == 0) folders.emplace_back("/dev/shm");
  return folders;
}

/// Whether a file of that folder can be opened so.
inline bool can_open(const std::string& path, FileCaching caching) {
  try {
    static_cast<void>(File::open_to_read(path, caching));
    return true;
  } catch (const FileError& error) {
    CHECK(caching == FileCaching::direct);
    CHECK(contains(error.what(), "FileCaching::direct"));
    return false;
  }
}

/// Pages of the file that are in the page cache.
inline std::size_t cached_pages(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  const std::size_t bytes = std::filesystem::file_size(path);
  const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_there((bytes + page - 1) / page);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(data != MAP_FAILED);
  REQUIRE(mincore(data, bytes, is_there.data()) == 0);
  munmap(data, bytes);
  close(file);
  return std::size_t(std::ranges::count_if(is_there, [](auto bits) { return (bits & 1) != 0; }));
}

/// Takes the file out of the page cache; false where that has no effect, as in memory.
inline bool evict(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
  return cached_pages(path) == 0;
}

/// Of this process.
inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::size_t(std::distance(begin(all), end(all)));
}

}  // namespace berth::test
