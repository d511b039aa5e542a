// SPDX-License-Identifier: Apache-2.0
#include "berth/file.hpp"

#include "berth/error.hpp"

#include "copy/file/open_file.hpp"

namespace berth {

using Use = OpenFile::Use;

namespace {

/// What read() and write() have in common, before they do anything. False for 0 bytes.
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

const std::string& File::path() const noexcept {
  return file_->path();
}

std::uint64_t File::size() const {
  return file_->size();
}

void File::read(void* target, std::size_t bytes, std::uint64_t offset) const {
  if (!check(*file_, Use::reading, target, bytes, offset)) return;
  file_->read(static_cast<std::byte*>(target), bytes, offset);
}

void File::write(const void* source, std::size_t bytes, std::uint64_t offset) const {
  if (!check(*file_, Use::writing, source, bytes, offset)) return;
  file_->write(static_cast<const std::byte*>(source), bytes, offset);
}

void File::sync() const {
  file_->sync();
}

}  // namespace berth
