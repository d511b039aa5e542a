// SPDX-License-Identifier: Apache-2.0
// A host that is short of memory: operator new of the calling thread is counted, and fails. For
// binaries that link scarce_memory.cpp.
#pragma once

#include <cstddef>

namespace berth::test {

/// While it exists, the calling thread's calls of operator new are counted, and after the first
/// `granted` the next `refused` throw std::bad_alloc. No assertions in its scope, because they
/// allocate.
class ScarceMemory {
 public:
  static constexpr std::size_t kUnlimited = ~std::size_t{0};

  explicit ScarceMemory(std::size_t granted, std::size_t refused = kUnlimited);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  /// Including refused calls.
  [[nodiscard]] std::size_t calls() const;
};

/// While it exists, the calling thread's memory is not scarce, and its calls are not counted. For
/// code within the scope of a ScarceMemory that is not under test, such as the simulated driver,
/// which must not throw.
class PlentifulMemory {
 public:
  PlentifulMemory();
  ~PlentifulMemory();
  PlentifulMemory(const PlentifulMemory&) = delete;
  PlentifulMemory& operator=(const PlentifulMemory&) = delete;

 private:
  const bool was_scarce_;
};

}  // namespace berth::test
