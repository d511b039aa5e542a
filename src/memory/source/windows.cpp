// SPDX-License-Identifier: Apache-2.0
#include "memory/source/windows.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"
#include "memory/source/has_memory.hpp"

namespace berth {
namespace {

/// Address space for windows is that many times what may be mapped in them: room enough for holes.
constexpr std::size_t kAddressSpaceFactor = 2;

}  // namespace

Windows::Windows(DeviceContext& context, Arena& arena, std::size_t mappings_max)
    : context_(context), arena_(arena), mappings_max_(mappings_max) {}

Windows::~Windows() {
  drop_all();
  if (address_ == 0) return;
  const ContextScope scope(context_, std::nothrow);
  context_.driver().mem_address_free_or_report(CUdeviceptr{address_}, address_bytes_);
}

bool Windows::shows(const Window& window, std::span<const GranuleNumber> granules) const {
  return std::ranges::equal(window.granules, granules);
}

std::optional<std::uintptr_t> Windows::find(std::span<const GranuleNumber> granules) {
  if (granules.front() >= by_granule_.size()) return std::nullopt;
  for (const ByUse::iterator window : by_granule_[granules.front()]) {
    if (!shows(*window, granules)) continue;
    by_use_.splice(by_use_.end(), by_use_, window);
    return window->address;
  }
  return std::nullopt;
}

bool Windows::reserve_address_space() {
  const ContextScope scope(context_);
  std::size_t granules = kAddressSpaceFactor * mappings_max_;
  do {
    const std::size_t bytes = granules * arena_.granule_bytes();
    CUdeviceptr address = 0;
    const CUresult reserved = context_.driver().try_mem_address_reserve(
        &address, bytes, arena_.granule_bytes(), CUdeviceptr{0}, 0ull);
    if (has_memory(context_.driver(), DriverCall::mem_address_reserve, reserved)) {
      address_ = static_cast<std::uintptr_t>(address);
      address_bytes_ = bytes;
      free_.emplace(address_, bytes);
      return true;
    }
    // A limit of the process, or many pools of large devices: with less there are holes sooner.
    granules /= 2;
  } while (granules * arena_.granule_bytes() >= arena_.bytes());
  return false;
}

std::optional<std::uintptr_t> Windows::take_address_space(std::size_t bytes) {
  if (address_ == 0 && !reserve_address_space()) return std::nullopt;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [address, free_bytes] = *range;
    if (free_bytes < bytes) continue;
    free_.erase(range);
    if (free_bytes > bytes) free_.emplace(address + bytes, free_bytes - bytes);
    return address;
  }
  return std::nullopt;
}

void Windows::give_back_address_space(std::uintptr_t address, std::size_t bytes) {
  auto range = free_.emplace(address, bytes).first;
  if (const auto next = std::next(range);
      next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto prev = std::prev(range);
  if (prev->first + prev->second != range->first) return;
  prev->second += range->second;
  free_.erase(range);
}

/// `gone` says after a failure whether nothing is mapped there.
bool Windows::map_at(std::uintptr_t address, std::span<const GranuleNumber> granules, bool& gone) {
  const Driver& driver = context_.driver();
  const std::size_t granule_bytes = arena_.granule_bytes();
  std::size_t mapped = 0;
  const auto fail = [&](DriverCall call, CUresult result) {
    gone = unmap(address, mapped);
    return has_memory(driver, call, result);
  };
  for (const GranuleNumber granule : granules) {
    const CUresult result =
        driver.try_mem_map(CUdeviceptr{address + mapped * granule_bytes}, granule_bytes,
                           std::size_t{0}, arena_.handle(granule), 0ULL);
    if (result != CUDA_SUCCESS) return fail(DriverCall::mem_map, result);
    ++mapped;
  }
  const CUresult result =
      driver.try_mem_set_access(CUdeviceptr{address}, granules.size() * granule_bytes,
                                arena_.access().data(), arena_.access().size());
  if (result != CUDA_SUCCESS) return fail(DriverCall::mem_set_access, result);
  return true;
}

bool Windows::unmap(std::uintptr_t address, std::size_t granules) noexcept {
  const std::size_t granule_bytes = arena_.granule_bytes();
  bool gone = true;
  for (std::size_t index = 0; index < granules; ++index) {
    const CUdeviceptr slot = address + index * granule_bytes;
    gone &= context_.driver().mem_unmap_or_report(slot, granule_bytes);
  }
  return gone;
}

std::optional<std::uintptr_t> Windows::map(std::span<const GranuleNumber> granules) {
  const std::size_t bytes = granules.size() * arena_.granule_bytes();
  const auto address = take_address_space(bytes);
  if (!address) return std::nullopt;
  const auto window = by_use_.insert(by_use_.end(), {{granules.begin(), granules.end()}, *address});
  mappings_ += granules.size();
  bool mapped = false;
  bool gone = true;
  try {
    const ContextScope scope(context_);
    index(window);
    mapped = map_at(*address, granules, gone);
  } catch (...) {
    forget(window, gone);
    throw;
  }
  if (mapped) return address;
  forget(window, gone);
  return std::nullopt;
}

void Windows::index(ByUse::iterator window) {
  const std::size_t end = std::ranges::max(window->granules) + std::size_t{1};
  if (by_granule_.size() < end) by_granule_.resize(end);
  for (const GranuleNumber granule : window->granules) {
    auto& windows = by_granule_[granule];
    if (windows.empty() || windows.back() != window) windows.push_back(window);
  }
}

/// Takes a window off the books; its address space is not used again where it is not `gone`.
void Windows::forget(ByUse::iterator window, bool gone) noexcept {
  for (const GranuleNumber granule : window->granules) {
    if (granule < by_granule_.size()) std::erase(by_granule_[granule], window);
  }
  mappings_ -= window->granules.size();
  if (gone) {
    give_back_address_space(window->address, window->granules.size() * arena_.granule_bytes());
  }
  by_use_.erase(window);
}

void Windows::drop(ByUse::iterator window) noexcept {
  const ContextScope scope(context_, std::nothrow);
  const bool gone = asleep_ || unmap(window->address, window->granules.size());
  forget(window, gone);
}

void Windows::drop(GranuleNumber first, GranuleNumber end) noexcept {
  for (std::size_t granule = first; granule < end && granule < by_granule_.size(); ++granule) {
    while (!by_granule_[granule].empty()) drop(by_granule_[granule].back());
  }
}

void Windows::sleep() noexcept {
  const ContextScope scope(context_, std::nothrow);
  if (asleep_) return;
  for (const Window& window : by_use_) unmap(window.address, window.granules.size());
  asleep_ = true;
}

bool Windows::wake() {
  const ContextScope scope(context_);
  auto window = by_use_.begin();
  const auto undo = [&] {
    while (window != by_use_.begin()) {
      --window;
      unmap(window->address, window->granules.size());
    }
  };
  try {
    bool gone = true;
    for (; window != by_use_.end(); ++window) {
      if (map_at(window->address, window->granules, gone)) continue;
      undo();
      return false;
    }
  } catch (...) {
    undo();
    throw;
  }
  asleep_ = false;
  return true;
}

void Windows::let_in(const CUmemAccessDesc& user) {
  if (asleep_) return;
  const ContextScope scope(context_);
  for (const Window& window : by_use_) {
    context_.driver().mem_set_access(CUdeviceptr{window.address},
                                     window.granules.size() * arena_.granule_bytes(), &user,
                                     std::size_t{1});
  }
}

void Windows::drop_all() noexcept {
  while (!by_use_.empty()) drop(by_use_.begin());
}

}  // namespace berth
