// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_saving.hpp"

#include <span>

namespace berth {

void FileSaving::copy_all() {
  const std::size_t all = range().bytes;
  std::size_t read_to = 0;
  for (std::size_t begin = 0; begin < all; begin += kPartBytes) {
    for (; read_to < all && read_to < begin + kPartsBytes; read_to += kPartBytes) read(read_to);
    Part& part = part_at(begin);
    if (!transfer().wait_for_part(part.is_busy)) return;
    const std::span<const std::byte> content(part.memory.data(), bytes_at(begin));
    range().file.write(content, range().offset + begin);
    transfer().add_bytes_done(content.size());
  }
}

void FileSaving::read(std::size_t begin) {
  Part& part = part_at(begin);
  // What is read has not arrived before it is in the file.
  use(part, 0, [&](DeviceBackend::Done done) {
    backend_.read(*source_, offset_ + begin, {part.memory.data(), bytes_at(begin)},
                  std::move(done));
  });
}

}  // namespace berth
