// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_staging.hpp"

#include <new>
#include <sys/mman.h>
#include <utility>

#include "base/check.hpp"
#include "buffer/host_mapping.hpp"

namespace berth {
namespace {

/// Null if the backend does not map it.
std::unique_ptr<HostMappingState> map_if_possible(std::shared_ptr<BufferSet> set,
                                                  const RegisteredBackend& owner,
                                                  std::span<std::byte> memory) noexcept {
  try {
    return std::make_unique<HostMappingState>(std::move(set), owner, memory);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

FileStaging::Pages::Pages() {
  void* const pages =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(pages);
}

FileStaging::Pages::~Pages() {
  ::munmap(data_, kBytes);
}

FileStaging::FileStaging(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner,
                         TaskThread& thread)
    : mapping_(map_if_possible(std::move(set), owner, pages_.memory())),
      parts_{Part(thread, pages_.part(0)), Part(thread, pages_.part(1)),
             Part(thread, pages_.part(2))} {}

FileStaging::~FileStaging() = default;

std::shared_ptr<Part> FileStaging::try_take() {
  Part* taken = nullptr;
  {
    const MutexLock lock(mutex_);
    for (std::size_t index = 0; index < kParts && taken == nullptr; ++index) {
      if (!std::exchange(is_taken_[index], true)) taken = &parts_[index];
    }
  }
  if (taken == nullptr) return nullptr;
  // Returned also if this throws.
  return {taken, [self = shared_from_this()](const Part* part) { self->give_back(part); }};
}

void FileStaging::give_back(const Part* part) noexcept {
  const MutexLock lock(mutex_);
  const auto index = static_cast<std::size_t>(part - parts_.data());
  BERTH_CHECK(is_taken_[index] && !part->is_busy);  // or another copy would get a busy part
  is_taken_[index] = false;
}

}  // namespace berth
