// SPDX-License-Identifier: Apache-2.0
// What the driver maps and what on_map and on_unmap say of it, byte for byte: the simulated driver,
// with an eye on the calls that map and unmap, and a hand that refuses some. One at a time; it
// outlives every Driver that was made of its source().
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_allocator.hpp"

#include "driver/driver_source.hpp"
#include "sim/functions.hpp"
#include "support/allocator_checks.hpp"

namespace berth::test {

/// Threads  One.
class MappingWatch {
 public:
  /// What on_map throws where it refuses.
  struct Refused : std::runtime_error {
    Refused() : std::runtime_error("the library cannot register it") {}
  };

  MappingWatch() {
    REQUIRE(current_ == nullptr);
    current_ = this;
  }
  ~MappingWatch() { current_ = nullptr; }
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  [[nodiscard]] DriverSource source() const {
    return {.name = "sim",
            .resolve = [](const char* symbol, int) { return find(symbol); },
            .problem = {},
            .library = {}};
  }
  [[nodiscard]] DeviceAllocatorOptions options(bool virtual_memory = true) {
    DeviceAllocatorOptions options;
    options.virtual_memory = virtual_memory;
    options.on_map = [this](const MappedRange& range) { note_announced(range); };
    options.on_unmap = [this](const MappedRange& range) { note_withdrawn(range); };
    return options;
  }

  /// Whether the driver refuses a call, and whether on_map refuses a range; never by default.
  std::function<bool()> refuses_call = [] { return false; };
  std::function<bool()> refuses_range = [] { return false; };
  bool refuses_unmap = false;  ///< also to free
  /// Called in on_map and in on_unmap.
  std::function<void(const MappedRange&)> in_callback = [](const MappedRange&) {};

  /// Every mapped page is announced, but for those that the driver refused to unmap.
  void check() const {
    for (const std::uintptr_t page : announced_) CHECK(mapped_.count(page) == 1);
    for (const std::uintptr_t page : mapped_)
      CHECK(announced_.count(page) + stuck_.count(page) >= 1);
  }
  [[nodiscard]] bool nothing_announced() const { return announced_.empty(); }
  [[nodiscard]] std::size_t bytes_announced() const { return announced_.size() * kPage; }
  [[nodiscard]] std::size_t bytes_mapped() const { return mapped_.size() * kPage; }
  [[nodiscard]] std::size_t aliases() const { return aliases_; }
  [[nodiscard]] std::size_t maps() const { return maps_; }
  [[nodiscard]] std::size_t unmaps() const { return unmaps_; }
  [[nodiscard]] bool is_announced(const void* data) const {
    return announced_.count(address_of(data) / kPage) == 1;
  }

 private:
  static constexpr std::size_t kPage = 64_KiB;

  template <class Visit>
  static void for_each_page(std::uintptr_t address, std::size_t bytes, const Visit& visit) {
    REQUIRE(address % kPage == 0);
    for (std::uintptr_t page = address / kPage; page * kPage < address + bytes; ++page) visit(page);
  }

  void note_announced(const MappedRange& range) {
    in_callback(range);
    if (refuses_range()) throw Refused();
    ++maps_;
    aliases_ += range.is_alias ? 1 : 0;
    REQUIRE(range.bytes % range.piece_bytes == 0);
    CHECK(range.device == Device::cuda(0));
    CUcontext context = nullptr;
    CHECK(sim::berth_sim_cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context != nullptr);
    for_each_page(address_of(range.data), range.bytes, [&](auto page) {
      CHECK(mapped_.count(page) == 1);
      CHECK(announced_.insert(page).second);
      stuck_.erase(page);
    });
  }
  void note_withdrawn(const MappedRange& range) {
    ++unmaps_;
    CHECK(range.bytes % range.piece_bytes == 0);
    for_each_page(address_of(range.data), range.bytes, [&](auto page) {
      CHECK(mapped_.count(page) == 1);
      CHECK(announced_.erase(page) == 1);
    });
    in_callback(range);
  }
  void note_mapped(std::uintptr_t address, std::size_t bytes) {
    sizes_[address] = bytes;
    for_each_page(address, bytes, [&](auto page) { CHECK(mapped_.insert(page).second); });
  }
  /// Before the call, whether it succeeds or not.
  void note_unmapping(std::uintptr_t address) const {
    for_each_page(address, sizes_.at(address),
                  [&](auto page) { CHECK(announced_.count(page) == 0); });
  }
  void note_unmapped(std::uintptr_t address, bool gone) {
    for_each_page(address, sizes_.at(address), [&](auto page) {
      if (gone)
        mapped_.erase(page), stuck_.erase(page);
      else
        stuck_.insert(page);
    });
  }

  [[nodiscard]] bool refuses() { return refuses_call(); }
  [[nodiscard]] bool refuses_return() { return refuses() || refuses_unmap; }

  static CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags) {
    if (current_->refuses()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = sim::berth_sim_cuMemMap(address, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS) current_->note_mapped(address, bytes);
    return result;
  }
  static CUresult unmap(CUdeviceptr address, std::size_t bytes) {
    current_->note_unmapping(address);
    const CUresult result =
        current_->refuses_return() ? CUDA_ERROR_UNKNOWN : sim::berth_sim_cuMemUnmap(address, bytes);
    current_->note_unmapped(address, result == CUDA_SUCCESS);
    return result;
  }
  static CUresult alloc(CUdeviceptr* address, std::size_t bytes) {
    if (current_->refuses()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = sim::berth_sim_cuMemAlloc(address, bytes);
    if (result == CUDA_SUCCESS) current_->note_mapped(*address, bytes);
    return result;
  }
  static CUresult free(CUdeviceptr address) {
    current_->note_unmapping(address);
    const CUresult result =
        current_->refuses_return() ? CUDA_ERROR_UNKNOWN : sim::berth_sim_cuMemFree(address);
    current_->note_unmapped(address, result == CUDA_SUCCESS);
    return result;
  }
  static CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                         const CUmemAllocationProp* properties, unsigned long long flags) {
    if (current_->refuses()) return CUDA_ERROR_OUT_OF_MEMORY;
    return sim::berth_sim_cuMemCreate(handle, bytes, properties, flags);
  }
  static CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                             std::size_t count) {
    if (current_->refuses()) return CUDA_ERROR_UNKNOWN;
    return sim::berth_sim_cuMemSetAccess(address, bytes, access, count);
  }

  static void* find(const char* symbol) {
    static const std::map<std::string, void*> watched = {
        {"cuMemMap", reinterpret_cast<void*>(&map)},
        {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
        {"cuMemAlloc", reinterpret_cast<void*>(&alloc)},
        {"cuMemAlloc_v2", reinterpret_cast<void*>(&alloc)},
        {"cuMemFree", reinterpret_cast<void*>(&free)},
        {"cuMemFree_v2", reinterpret_cast<void*>(&free)},
        {"cuMemCreate", reinterpret_cast<void*>(&create)},
        {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)}};
    const auto found = watched.find(symbol);
    return found != watched.end() ? found->second : sim::resolve(symbol);
  }

  static inline MappingWatch* current_ = nullptr;

  std::map<std::uintptr_t, std::size_t> sizes_;  ///< of the driver's mappings, by address
  std::set<std::uintptr_t> mapped_;              ///< pages
  std::set<std::uintptr_t> announced_;
  std::set<std::uintptr_t> stuck_;  ///< which the driver has refused to unmap
  std::size_t aliases_ = 0;
  std::size_t maps_ = 0;
  std::size_t unmaps_ = 0;
};

}  // namespace berth::test
