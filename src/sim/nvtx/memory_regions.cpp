// SPDX-License-Identifier: Apache-2.0
#include "sim/nvtx/memory_regions.hpp"

#include <iterator>
#include <vector>

#include "sim/check/memory_names.hpp"

namespace berth::sim {

std::uintptr_t MemoryRegions::add_heap(std::uint64_t start, std::size_t bytes,
                                       const std::string& name) {
  heaps_[++last_heap_] = {start, bytes, name};
  if (!name.empty()) names_.set(start, bytes, name);
  return last_heap_;
}

void MemoryRegions::remove_heap(std::uintptr_t heap) {
  const auto found = heaps_.find(heap);
  if (found == heaps_.end()) return;
  reset_heap(heap);
  names_.forget(found->second.start, found->second.bytes);
  heaps_.erase(found);
}

void MemoryRegions::reset_heap(std::uintptr_t heap) {
  for (auto region = regions_.begin(); region != regions_.end();)
    region = region->second.heap == heap ? remove(region) : std::next(region);
}

void MemoryRegions::add(std::uintptr_t heap, std::uint64_t start, std::size_t bytes) {
  remove(start);
  regions_[start] = {bytes, heap};
}

void MemoryRegions::resize(std::uint64_t start, std::size_t bytes) {
  const auto found = regions_.find(start);
  if (found == regions_.end()) return;
  const std::vector<std::string> name = names_.find(start, 1, 1);
  const std::uintptr_t heap = found->second.heap;
  add(heap, start, bytes);
  if (!name.empty()) names_.set(start, bytes, name.front());
}

void MemoryRegions::remove(std::uint64_t start) {
  if (const auto found = regions_.find(start); found != regions_.end()) remove(found);
}

MemoryRegions::Regions::iterator MemoryRegions::remove(Regions::iterator region) {
  const auto heap = heaps_.find(region->second.heap);
  names_.set(region->first, region->second.bytes,
             heap != heaps_.end() ? heap->second.name : std::string());
  return regions_.erase(region);
}

std::optional<std::size_t> MemoryRegions::find(std::uint64_t start) const {
  const auto found = regions_.find(start);
  if (found == regions_.end()) return std::nullopt;
  return found->second.bytes;
}

}  // namespace berth::sim
