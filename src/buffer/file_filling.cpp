// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_filling.hpp"

namespace berth {

void FileFilling::copy_all() {
  const std::size_t all = range().bytes;
  for (std::size_t begin = 0; begin < all; begin += kPartBytes) {
    const Slot* const slot = wait_for_free();
    if (slot == nullptr) return;
    const std::span content = slot->part->memory.first(bytes_at(begin));
    range().file.read(content, range().offset + begin);
    use(slot->part, content.size(), [&](DeviceBackend::Done done) {
      filling_->write(begin, content, begin + content.size() == all, std::move(done));
    });
  }
}

void FileFilling::release() noexcept {
  filling_ = nullptr;
  FileTask::release();
}

}  // namespace berth
