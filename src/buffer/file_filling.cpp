// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_filling.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace berth {

FileFilling::FileFilling(std::shared_ptr<BufferTransfer> transfer,
                         std::unique_ptr<DeviceBackend::Filling> filling, FileRange range)
    : transfer_(std::move(transfer)), filling_(std::move(filling)), range_(std::move(range)) {}

void FileFilling::run() noexcept {
  std::exception_ptr failure;
  try {
    write_all();
  } catch (...) {
    failure = std::current_exception();
  }
  filling_ = nullptr;  // if it is destroyed before its last write, the filling fails
  transfer_->finish(failure);
}

void FileFilling::write_all() {
  // Not in the constructor, because many fillings may wait for their turn.
  for (Part& part : parts_) part.memory.resize(std::min(range_.bytes, kPartBytes));
  std::size_t index = 0;
  for (std::size_t begin = 0; begin < range_.bytes; begin += kPartBytes) {
    Part& part = parts_[index++ % parts_.size()];
    if (!transfer_->wait_for_part(part.is_busy)) return;
    write(part, begin, std::min(kPartBytes, range_.bytes - begin));
  }
}

void FileFilling::write(Part& part, std::size_t begin, std::size_t bytes) {
  const std::span content(part.memory.data(), bytes);
  range_.file.read(content, range_.offset + begin);
  part.is_busy = true;
  // Ends with the call of `done`, or with the last copy of a `done` that a backend drops without a
  // call.
  std::shared_ptr<Part> use(
      &part, [self = shared_from_this()](Part* used) { self->transfer_->end_part(used->is_busy); });
  const DeviceBackend::Done done = transfer_->add_operation(bytes);
  try {
    filling_->write(begin, content, begin + bytes == range_.bytes,
                    [use = std::move(use), done](std::exception_ptr failure) mutable {
                      done(std::move(failure));
                      use = nullptr;
                    });
  } catch (...) {
    done(std::current_exception());  // before the operation counts as dropped
    throw;
  }
}

}  // namespace berth
