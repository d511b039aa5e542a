// SPDX-License-Identifier: Apache-2.0
// Counts the locks of an object's mutexes, by all threads. For binaries that link lock_counter.cpp;
// not with the thread sanitizer, which has its own locks.
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
  /// Counts for the mutexes within `object`.
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
