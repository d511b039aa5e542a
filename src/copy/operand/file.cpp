// SPDX-License-Identifier: Apache-2.0
#include "berth/file.hpp"

#include "berth/error.hpp"

#include "copy/operand/open_file.hpp"

namespace berth {

using Use = OpenFile::Use;

namespace {

/// The checks of read() and write(). False for 0 bytes.
bool check(const OpenFile& file, Use use, const void* memory, std::size_t bytes,
           std::uint64_t offset) {
  file.require(use);
  if (bytes == 0) return false;
  if (memory == nullptr) {
    throw InvalidArgument(use == Use::reading ? "\"target\" is null, which is not accepted"
                                              : "\"source\" is null, which is not accepted");
  }
  file.check_range(offset, bytes);
  return true;
}

}  // namespace

File File::open_to_read(const std::string& path, FileCaching caching) {
  return File(std::make_shared<const OpenFile>(path, Use::reading, caching));
}

File File::open_to_write(const std::string& path, FileCaching caching) {
  return File(std::make_shared<const OpenFile>(path, Use::writing, caching));
}

const std::string& File::path() const {
  return open_file().path();
}

std::uint64_t File::size() const {
  return open_file().size();
}

void File::read(std::span<std::byte> target, std::uint64_t offset) const {
  const OpenFile& file = open_file();
  if (!check(file, Use::reading, target.data(), target.size(), offset)) return;
  file.read(target.data(), target.size(), offset);
}

void File::write(std::span<const std::byte> source, std::uint64_t offset) const {
  const OpenFile& file = open_file();
  if (!check(file, Use::writing, source.data(), source.size(), offset)) return;
  file.write(source.data(), source.size(), offset);
}

void File::sync() const {
  open_file().sync();
}

}  // namespace berth
