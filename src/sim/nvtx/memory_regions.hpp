// SPDX-License-Identifier: Apache-2.0
// Heaps and regions of memory that the program has registered with NVTX, so that it can name them.
// Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace berth::sim {

class MemoryNames;

class MemoryRegions {
 public:
  explicit MemoryRegions(MemoryNames& names) : names_(names) {}

  /// A heap, which a sub-allocator divides into regions. Its name, unless empty, is that of all
  /// memory in it that belongs to no named region. Returns its handle.
  std::uintptr_t add_heap(std::uint64_t start, std::size_t bytes, const std::string& name);
  /// Also removes the regions of the heap.
  void remove_heap(std::uintptr_t heap);
  /// Removes all regions of the heap; 0: all regions that belong to no heap.
  void reset_heap(std::uintptr_t heap);

  void add(std::uintptr_t heap, std::uint64_t start, std::size_t bytes);
  /// The region keeps its name.
  void resize(std::uint64_t start, std::size_t bytes);
  void remove(std::uint64_t start);
  /// The size of the region that starts there.
  [[nodiscard]] std::optional<std::size_t> find(std::uint64_t start) const;

 private:
  struct Heap {
    std::uint64_t start;
    std::size_t bytes;
    std::string name;
  };
  struct Region {
    std::size_t bytes;
    std::uintptr_t heap;  ///< 0: none
  };
  using Regions = std::map<std::uint64_t, Region>;  // by start

  Regions::iterator remove(Regions::iterator region);

  MemoryNames& names_;
  std::map<std::uintptr_t, Heap> heaps_;
  Regions regions_;
  std::uintptr_t last_heap_ = 0;
};

}  // namespace berth::sim
