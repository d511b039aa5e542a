// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_saving.hpp"

namespace berth {

void FileSaving::copy_all() {
  const std::size_t all = range().bytes;
  std::size_t read_to = 0;
  for (std::size_t begin = 0; begin < all; begin += kPartBytes) {
    // Some backends know only after the first parts that they do not read parts.
    for (; read_to < all && read_to < begin + kPartsBytes; read_to += kPartBytes) {
      if (!backend_.reads_parts()) break;
      read(read_to);
    }
    if (begin >= read_to) return copy_from_whole(begin);
    Part& part = part_at(begin);
    if (!transfer().wait_for_part(part.is_busy)) return;
    write(begin, {part.memory.data(), bytes_at(begin)});
  }
}

void FileSaving::copy_from_whole(std::size_t begin) {
  whole_.memory.resize(source_bytes_);
  use(whole_, 0, [&](DeviceBackend::Done done) {
    backend_.read(*source_, 0, whole_.memory, std::move(done));
  });
  for (; begin < range().bytes; begin += kPartBytes) {
    if (!transfer().wait_for_part(whole_.is_busy)) return;
    write(begin, {whole_.memory.data() + offset_ + begin, bytes_at(begin)});
  }
}

void FileSaving::write(std::size_t begin, std::span<const std::byte> content) {
  range().file.write(content, range().offset + begin);
  transfer().add_bytes_done(content.size());
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
