// SPDX-License-Identifier: Apache-2.0
#include "copy/file_copies.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "copy/operand/file_side.hpp"
#include "copy/operand/open_file.hpp"
#include "device/device_context.hpp"
#include "stream/wait.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

/// Size of the buffer if the driver copies.
constexpr std::size_t kBufferBytes = 4_MiB;

struct AlignedDelete {
  void operator()(std::byte* data) const noexcept {
    ::operator delete (data, std::align_val_t{OpenFile::kBlockBytes});
  }
};
using Buffer = std::unique_ptr<std::byte, AlignedDelete>;

Buffer make_buffer(std::size_t bytes) {
  return Buffer(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{OpenFile::kBlockBytes})));
}

}  // namespace

void check_file_copy(const FileRange& range, const MemorySide& device, CopyDirection direction) {
  const OpenFile& file = range.file.open_file();
  const bool is_source = direction == CopyDirection::to_device;
  file.require(is_source ? OpenFile::Use::reading : OpenFile::Use::writing);
  if (device.kind.is_host()) {
    throw InvalidArgument(format_text(
        "{} is host memory; accepted beside a file: memory of a device. File::{}() does "
        "without a copier",
        static_cast<const void*>(device.data), is_source ? "read" : "write"));
  }
  file.check_range(range.offset, range.bytes);
}

StagedRoute file_route(const FileRange& range, std::byte* device, CopyDirection direction,
                       std::shared_ptr<const void> keep_alive) {
  const FileRow row(range);
  return {.direction = direction,
          .host = std::make_unique<FileSide>(range),
          .device = std::make_unique<FileRowDevice>(device, row),
          .bytes = row.bytes(),
          .waits_for_disk = true,
          .keep_alive = std::move(keep_alive)};
}

std::shared_ptr<StagedTransfer> file_transfer(const FileRange& range, HostWork& work,
                                              const HostWork::CopyPtr& copy) {
  return std::make_shared<StagedTransfer>(work, copy, FileRow(range).bytes_before(), range.bytes);
}

void copy_file_by_driver(const FileRange& range, std::byte* device, CopyDirection direction,
                         StreamRef stream) {
  FileSide file(range);
  const FileRow row(range);
  FileRowDevice memory(device, row);
  const Buffer buffer = make_buffer(std::min(kBufferBytes, row.bytes()));
  const auto sync = [&] {
    try {
      wait_for(stream);
    } catch (...) {
      wait_after_failure(stream);  // perhaps only the query has failed; the buffer is freed next
      throw;
    }
  };
  for (std::size_t offset = 0; offset < row.bytes(); offset += kBufferBytes) {
    const std::size_t bytes = std::min(kBufferBytes, row.bytes() - offset);
    make_host_progress(stream);
    if (direction == CopyDirection::to_device) {
      file.read(buffer.get(), offset, bytes);
      memory.submit_write(buffer.get(), offset, bytes, stream);
    } else {
      memory.submit_read(buffer.get(), offset, bytes, stream);
    }
    // The buffer must not be overwritten during its copy.
    sync();
    if (direction == CopyDirection::to_host) file.write(buffer.get(), offset, bytes);
  }
}

}  // namespace berth
