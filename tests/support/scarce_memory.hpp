// SPDX-License-Identifier: Apache-2.0
// A host that is short of memory: operator new of the calling thread is counted, and refuses. For
// the binaries that scarce_memory.cpp is linked into.
#pragma once

#include <cstddef>

namespace berth::test {

/// While it exists, the calling thread's calls of operator new are counted, and behind the first
/// `granted` the next `refused` throw std::bad_alloc. No assertion in its scope: that allocates, too.
class ScarceMemory {
 public:
  static constexpr std::size_t kUnlimited = ~std::size_t{0};

  explicit ScarceMemory(std::size_t granted, std::size_t refused = kUnlimited);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  /// Those that were refused, too.
  [[nodiscard]] std::size_t calls() const;
};

}  // namespace berth::test
