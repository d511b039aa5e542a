// SPDX-License-Identifier: Apache-2.0
// Which work wrote which value to the words of host memory that a program may poll, so that a
// thread that has read a value comes after the work that wrote it, and not after what wrote the
// word since. Guarded by sim::mutex.
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
  /// Work that comes after `before` wrote `value` to the `bytes` at `where`.
  void note(const std::byte* where, std::uint64_t value, unsigned bytes, const Clock& before);
  /// The same of a copy, a fill or a kernel, which has written `data`; no matter where that is no
  /// word of host memory.
  void note_write(const Use& write, const Clock& before, std::span<const std::byte> data);
  /// What the work comes after that wrote `value` to `where`, the latest of several; nullopt: the
  /// latest of all. Null where none did. A value that is not among those remembered is older, or
  /// the host's own.
  [[nodiscard]] const Clock* find(const std::byte* where, std::optional<std::uint64_t> value) const;
  void forget(std::span<const std::byte> data);

 private:
  struct Written {
    std::uint64_t value;
    unsigned bytes;
    Clock before;
  };
  /// Of one word. A reader is hardly ever so many values late; one that is comes after the oldest.
  static constexpr std::size_t kRemembered = 64;

  std::map<const std::byte*, std::deque<Written>> words_;
};

}  // namespace berth::sim
