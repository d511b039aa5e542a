// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_filling.hpp"

#include <span>

namespace berth {

void FileFilling::copy_all() {
  const std::size_t all = range().bytes;
  for (std::size_t begin = 0; begin < all; begin += kPartBytes) {
    Part& part = part_at(begin);
    if (!transfer().wait_for_part(part.is_busy)) return;
    const std::span content(part.memory.data(), bytes_at(begin));
    range().file.read(content, range().offset + begin);
    use(part, content.size(), [&](DeviceBackend::Done done) {
      filling_->write(begin, content, begin + content.size() == all, std::move(done));
    });
  }
}

}  // namespace berth
