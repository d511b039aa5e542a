// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_saving.hpp"

namespace berth {
namespace {

/// A part with memory of its own, for a whole buffer.
struct WholePart {
  WholePart(TaskThread& thread, std::size_t bytes)
      : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)),
        part(thread, {memory.get(), bytes}) {}

  const std::unique_ptr<std::byte[]> memory;
  Part part;
};

}  // namespace

void FileSaving::copy_all() {
  // Parts may be read in any order, and are written as they come.
  for (;;) {
    const bool reads = has_next();
    if (!reads && !is_reading()) break;
    Slot* const slot = wait_for([&] {
      Slot* const free = reads ? find_free() : nullptr;
      return free != nullptr ? free : find_read();
    });
    if (slot == nullptr) return;
    if (slot->is_idle) {
      read_next(*slot);
    } else {
      write(slot->begin, slot->part->memory.first(bytes_at(slot->begin)));
      slot->is_idle = true;
    }
  }
  if (next_ < range().bytes) copy_from_whole();
}

bool FileSaving::has_next() const {
  // Some backends know only after the first parts that they do not read parts.
  return next_ < range().bytes && backend_.reads_parts();
}

bool FileSaving::is_reading() {
  return std::ranges::any_of(slots(), [](const Slot& slot) { return !slot.is_idle; });
}

PartTask::Slot* FileSaving::find_read() {
  const auto found = std::ranges::find_if(
      slots(), [](const Slot& slot) { return !slot.is_idle && !slot.part->is_busy; });
  return found == slots().end() ? nullptr : &*found;
}

void FileSaving::read_next(Slot& slot) {
  slot.begin = next_;
  slot.is_idle = false;
  const std::span target = slot.part->memory.first(bytes_at(next_));
  next_ += target.size();
  // What is read has not arrived before it is in the file.
  use(slot.part, 0, [&](DeviceBackend::Done done) {
    backend_.read(*source_, offset_ + slot.begin, target, std::move(done));
  });
}

void FileSaving::copy_from_whole() {
  const auto whole = std::make_shared<WholePart>(thread(), source_bytes_);
  Slot& slot = slots()[0];
  slot.part = {whole, &whole->part};
  slot.is_idle = false;
  use(slot.part, 0, [&](DeviceBackend::Done done) {
    backend_.read(*source_, 0, whole->part.memory, std::move(done));
  });
  for (; next_ < range().bytes; next_ += bytes_at(next_)) {
    if (wait_for([this] { return find_read(); }) == nullptr) return;
    write(next_, whole->part.memory.subspan(offset_ + next_, bytes_at(next_)));
  }
}

void FileSaving::write(std::size_t begin, std::span<const std::byte> content) {
  range().file.write(content, range().offset + begin);
  transfer().add_bytes_done(content.size());
}

void FileSaving::release() noexcept {
  source_ = nullptr;
  FileTask::release();
}

}  // namespace berth
