// SPDX-License-Identifier: Apache-2.0
// memcpy between staging memory and the rest of the host's: pieces of some hundred KiB, whose
// target this processor does not look at again. Which instructions are the fastest differs from
// processor to processor and from one direction to the other, by a tenth and more: the first pieces
// try them all, and the rest go with the best (bench/host_memcpy.cpp).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace berth {

/// Tries each way some times, and goes on with the one that was the fastest at its best. Allocates
/// nothing: what the host does for a copy must not fail for a lack of memory.
/// Threads  Safe from any thread.
class FastestMemcpy {
 public:
  FastestMemcpy();
  void operator()(void* target, const void* source, std::size_t bytes);

 private:
  using Memcpy = void (*)(void* target, const void* source, std::size_t bytes);

  static constexpr std::size_t kWaysMax = 3;
  struct Way {
    Memcpy copy = nullptr;
    std::atomic<double> ns_per_byte = 1e9;
  };

  void add(Memcpy copy) { ways_[count_++].copy = copy; }
  void try_next(void* target, const void* source, std::size_t bytes);
  void choose();

  std::array<Way, kWaysMax> ways_;
  std::size_t count_ = 0;
  std::atomic<std::size_t> begun_ = 0;
  std::atomic<std::size_t> ended_ = 0;
  std::atomic<Memcpy> best_ = nullptr;
};

/// The ranges do not overlap. What is written can be seen by other threads as after any memcpy.
void memcpy_to_staging(void* staging, const void* source, std::size_t bytes);
/// The same.
void memcpy_from_staging(void* target, const void* staging, std::size_t bytes);

}  // namespace berth
