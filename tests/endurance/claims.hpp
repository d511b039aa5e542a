// SPDX-License-Identifier: Apache-2.0
// Which physical bytes live blocks have: one bit for each 512 of them. Two blocks that share a byte
// claim one bit twice, whichever addresses they go by, and a block whose memory was mapped away
// gives up what it does not have.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "berth/device_allocator.hpp"

#include "endurance/page_table.hpp"

namespace berth::endurance {

/// Threads  any. A block is claimed after it was allocated and given up before it is freed, so that
/// the allocator itself orders the claims of one byte.
class Claims {
 public:
  /// Frames are numbered from 1.
  Claims(const PageTable& pages, std::size_t frames) : pages_(pages), frames_(frames + 1) {}

  /// False where a byte is not mapped, or somebody's already.
  [[nodiscard]] bool claim(std::uintptr_t address, std::size_t bytes) {
    return for_each_word(address, bytes, [](Word& word, std::uint64_t bits) {
      if (bits != kAll) return (word.fetch_or(bits, std::memory_order_relaxed) & bits) == 0;
      // The whole word is this block's or the allocator is wrong: no read-modify-write needed.
      const bool free = word.load(std::memory_order_relaxed) == 0;
      word.store(kAll, std::memory_order_relaxed);
      return free;
    });
  }
  /// False where a byte was not mapped, or not claimed.
  [[nodiscard]] bool give_up(std::uintptr_t address, std::size_t bytes) {
    return for_each_word(address, bytes, [](Word& word, std::uint64_t bits) {
      if (bits != kAll) return (word.fetch_and(~bits, std::memory_order_relaxed) & bits) == bits;
      const bool whole = word.load(std::memory_order_relaxed) == kAll;
      word.store(0, std::memory_order_relaxed);
      return whole;
    });
  }

  /// Whether all bytes are claimed, or none is. Not while blocks come and go.
  [[nodiscard]] bool all(std::uintptr_t address, std::size_t bytes) {
    return for_each_word(address, bytes, [](const Word& word, std::uint64_t bits) {
      return (word.load(std::memory_order_relaxed) & bits) == bits;
    });
  }
  [[nodiscard]] bool none(std::uintptr_t address, std::size_t bytes) {
    return for_each_word(address, bytes, [](const Word& word, std::uint64_t bits) {
      return (word.load(std::memory_order_relaxed) & bits) == 0;
    });
  }
  [[nodiscard]] bool none(Frame frame) const {
    for (const Word& word : frames_[frame].words) {
      if (word.load(std::memory_order_relaxed) != 0) return false;
    }
    return true;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  static constexpr std::size_t kWordBytes = 64 * kBlockAlignment;
  struct FrameClaims {
    std::array<Word, kPageBytes / kWordBytes> words{};
  };

  template <class Change>
  bool for_each_word(std::uintptr_t address, std::size_t bytes, const Change& change) {
    const std::uintptr_t end = address + bytes;
    while (address < end) {
      const Frame frame = pages_.find(address);
      if (frame == kNoFrame) return false;
      const std::uintptr_t page_end = (address / kPageBytes + 1) * kPageBytes;
      for (const std::uintptr_t stop = end < page_end ? end : page_end; address < stop;) {
        const std::size_t first = address % kWordBytes / kBlockAlignment;
        const std::uintptr_t word_end = (address / kWordBytes + 1) * kWordBytes;
        const std::uintptr_t last = stop < word_end ? stop : word_end;
        const std::size_t count = (last - address + kBlockAlignment - 1) / kBlockAlignment;
        const std::uint64_t bits = (count == 64 ? kAll : (std::uint64_t{1} << count) - 1) << first;
        if (!change(frames_[frame].words[address % kPageBytes / kWordBytes], bits)) return false;
        address = last;
      }
    }
    return true;
  }

  const PageTable& pages_;
  std::vector<FrameClaims> frames_;
};

}  // namespace berth::endurance
