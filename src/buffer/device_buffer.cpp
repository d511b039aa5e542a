// SPDX-License-Identifier: Apache-2.0
#include "berth/device_buffer.hpp"

#include <memory>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "buffer/buffer_operations.hpp"
#include "buffer/file_saving.hpp"
#include "buffer/host_copies.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/operand/open_file.hpp"

namespace berth {
namespace {

/// Errors  InvalidArgument: the range is outside of the buffer; the end of the Runtime.
void require_range(const BufferState& source, std::size_t offset, std::size_t bytes) {
  source.require_open();
  if (offset <= source.bytes() && bytes <= source.bytes() - offset) return;
  throw InvalidArgument(
      format_text("{} B at {} are not in a buffer of {} with {} B; accepted: a range within the "
                  "buffer",
                  bytes, offset, source.device().to_string(), source.bytes()));
}

}  // namespace

const BufferState& require_buffer(const std::shared_ptr<BufferState>& state) {
  if (state == nullptr) detail::refuse_empty("buffer");
  return *state;
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<BufferState> state) noexcept
    : state_(std::move(state)) {}

DeviceBuffer::~DeviceBuffer() = default;

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}

Device DeviceBuffer::device() const {
  return require_buffer(state_).device();
}

std::size_t DeviceBuffer::bytes() const noexcept {
  return state_ == nullptr ? 0 : state_->bytes();
}

const Transfer& DeviceBuffer::ready() const {
  return require_buffer(state_).ready();
}

Transfer DeviceBuffer::read(void* target, std::size_t offset, std::size_t bytes,
                            TransferOptions options) const {
  const BufferState& source = require_buffer(state_);
  require_range(source, offset, bytes);
  if (bytes > 0) check_range(target, bytes, kTargetName);
  const std::size_t part_bytes = part_bytes_of(options, bytes);
  return run_transfer(source.set(), TransferName{"reading a buffer of", source.device()}, bytes,
                      std::move(options), [&](const std::shared_ptr<BufferTransfer>& transfer) {
                        if (bytes > 0) {
                          source.set()->require_host_memory(target, bytes, kTargetName);
                          HostReads reads(transfer, part_bytes);
                          reads.add(source, offset, {static_cast<std::byte*>(target), bytes});
                          reads.post();
                        }
                        transfer->finish();
                      });
}

Transfer DeviceBuffer::read(const FileRange& target, std::size_t offset,
                            TransferOptions options) const {
  const BufferState& source = require_buffer(state_);
  const OpenFile& file = target.file.open_file();
  file.require(OpenFile::Use::writing);
  require_range(source, offset, target.bytes);
  if (target.bytes > 0) file.check_range(target.offset, target.bytes);
  return run_transfer(
      source.set(), TransferName{"writing to a file a buffer of", source.device()}, target.bytes,
      std::move(options), [&](const std::shared_ptr<BufferTransfer>& transfer) {
        if (target.bytes > 0) {
          auto saving = std::make_shared<FileSaving>(transfer, source, offset, target);
          source.work().files().start();
          source.set()->count_read(source.device(), target.bytes);
          PartTask::post(std::move(saving));
        }
        transfer->finish();
      });
}

}  // namespace berth
