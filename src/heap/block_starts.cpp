// SPDX-License-Identifier: Apache-2.0
#include "heap/block_starts.hpp"

#include <bit>
#include <new>
#include <sys/mman.h>

#include "berth/allocator.hpp"

#include "base/check.hpp"

namespace berth {
namespace {

constexpr std::size_t kWordBits = 64;

std::uint64_t bit_of(std::size_t index) {
  return std::uint64_t{1} << (index % kWordBits);
}

}  // namespace

BlockStarts::BlockStarts(std::uintptr_t address, std::size_t bytes) : address_(address) {
  std::array<std::size_t, kLevelsMax> words{};
  std::size_t sum = 0;
  for (std::size_t bits = (bytes + kBlockAlignment - 1) / kBlockAlignment;;) {
    BERTH_CHECK(levels_ < kLevelsMax);
    bits = (bits + kWordBits - 1) / kWordBits;
    words[levels_++] = bits;
    sum += bits;
    if (bits == 1) break;
  }
  bytes_mapped_ = sum * sizeof(std::uint64_t);
  void* const mapped = mmap(nullptr, bytes_mapped_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  words_[0] = static_cast<std::uint64_t*>(mapped);
  for (std::size_t level = 1; level < levels_; ++level)
    words_[level] = words_[level - 1] + words[level - 1];
}

BlockStarts::~BlockStarts() {
  munmap(words_[0], bytes_mapped_);
}

std::size_t BlockStarts::unit_of(const Block& block) const {
  const std::size_t offset = block.address - address_;
  BERTH_CHECK(offset % kBlockAlignment == 0);
  return offset / kBlockAlignment;
}

void BlockStarts::insert(const Block& block) noexcept {
  std::size_t index = unit_of(block);
  BERTH_CHECK((words_[0][index / kWordBits] & bit_of(index)) == 0);
  for (std::size_t level = 0; level < levels_; ++level, index /= kWordBits) {
    std::uint64_t& word = words_[level][index / kWordBits];
    const bool was_empty = word == 0;
    word |= bit_of(index);
    if (!was_empty) return;
  }
}

void BlockStarts::erase(const Block& block) noexcept {
  std::size_t index = unit_of(block);
  BERTH_CHECK((words_[0][index / kWordBits] & bit_of(index)) != 0);
  for (std::size_t level = 0; level < levels_; ++level, index /= kWordBits) {
    std::uint64_t& word = words_[level][index / kWordBits];
    word &= ~bit_of(index);
    if (word != 0) return;
  }
}

std::optional<std::uintptr_t> BlockStarts::last_up_to(std::uintptr_t address) const {
  std::size_t index = (address - address_) / kBlockAlignment;
  std::uint64_t wanted = bit_of(index) | (bit_of(index) - 1);  // its own too on level 0
  for (std::size_t level = 0; level < levels_; ++level) {
    const std::size_t place = index / kWordBits;
    if (std::uint64_t bits = words_[level][place] & wanted; bits != 0) {
      index = place;
      for (;; --level) {  // back down, to the last start of each word
        index =
            index * kWordBits + kWordBits - 1 - static_cast<std::size_t>(std::countl_zero(bits));
        if (level == 0) return address_ + index * kBlockAlignment;
        bits = words_[level - 1][index];
      }
    }
    index = place;
    wanted = bit_of(index) - 1;
  }
  return std::nullopt;
}

}  // namespace berth
