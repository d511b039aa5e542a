// SPDX-License-Identifier: Apache-2.0
// The values that work wrote to words of host memory that a program may poll. A thread that has
// read a value is ordered after the work that wrote it, and not after later writes of the word.
// Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>

#include "sim/check/clock.hpp"
#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

class Words {
 public:
  /// Work that is ordered after `before` wrote `value` to the `bytes` at `where`.
  void note(const std::byte* where, std::uint64_t value, unsigned bytes, const Clock& before);
  /// The same for a copy, a fill or a kernel, which has written `data`. Ignored if `data` is not a
  /// word of host memory.
  void note_write(const Use& write, const Clock& before, std::span<const std::byte> data);
  /// The clock of the latest work that wrote `value` to `where`; nullopt: that wrote any value.
  /// Null if there is none. A value that is not stored is older, or was written by the host.
  [[nodiscard]] const Clock* find(const std::byte* where, std::optional<std::uint64_t> value) const;
  void forget(std::span<const std::byte> data);

 private:
  struct Written {
    std::uint64_t value;
    unsigned bytes;
    Clock before;
  };
  /// The number of values kept for a word. A reader is rarely further behind; such a reader is
  /// ordered after the oldest value.
  static constexpr std::size_t kRemembered = 64;

  std::map<const std::byte*, std::deque<Written>> words_;
};

}  // namespace berth::sim
