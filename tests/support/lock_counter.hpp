// SPDX-License-Identifier: Apache-2.0
// Counts how often mutexes of an object are locked, by whichever thread. For the binaries that
// lock_counter.cpp is linked into; the thread sanitizer does without, which has locks of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/sanitizers.hpp"

namespace berth::test {

#ifdef BERTH_UNDER_TSAN
inline constexpr bool kCountsLocks = false;
#else
inline constexpr bool kCountsLocks = true;
#endif

/// One at a time.
class LockCounter {
 public:
  /// Of the mutexes that lie within `object`.
  template <class Object>
  explicit LockCounter(const Object& object) : LockCounter(&object, sizeof(Object)) {}
  ~LockCounter();
  LockCounter(const LockCounter&) = delete;
  LockCounter& operator=(const LockCounter&) = delete;

  [[nodiscard]] std::uint64_t locks() const;

 private:
  LockCounter(const void* object, std::size_t bytes);
};

}  // namespace berth::test
