// SPDX-License-Identifier: Apache-2.0
#include "memory/source/windows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// The address space for windows is this multiple of the mappings that they may have, which leaves
/// room for holes.
constexpr std::size_t kAddressSpaceFactor = 2;

}  // namespace

Windows::Windows(DeviceContext& context, Arena& arena, std::size_t mappings_max)
    : context_(context),
      arena_(arena),
      address_space_granules_(kAddressSpaceFactor * mappings_max),
      mappings_max_(mappings_max) {}

Windows::~Windows() {
  drop_all();
  retry_refused();
  if (address_ == 0) return;
  const ContextScope scope(context_, std::nothrow);
  context_.driver().mem_address_free_or_report(CUdeviceptr{address_}, address_bytes_);
}

bool Windows::shows(Number window, const GranuleSequence& granules) const {
  if (windows_[window].size != granules.size()) return false;
  Number slot = windows_[window].first;
  return std::ranges::all_of(granules.runs(), [&](const GranuleSequence::Run& run) {
    const Slot& first = slots_[slot];
    slot += run.size;
    return first.granule == run.first && first.run == run.size;
  });
}

std::optional<std::uintptr_t> Windows::find(const GranuleSequence& granules) {
  const GranuleNumber first = granules.runs().front().first;
  if (first >= by_granule_.size()) return std::nullopt;
  for (Number slot = by_granule_[first]; slot != kNone; slot = slots_[slot].older) {
    const Number window = slots_[slot].window;
    if (windows_[window].first != slot || !shows(window, granules)) continue;
    unlink(window);
    link_newest(window);
    return address_of(slot);
  }
  return std::nullopt;
}

bool Windows::reserve_address_space() {
  const ContextScope scope(context_);
  std::size_t granules = address_space_granules_;
  do {
    const std::size_t bytes = granules * arena_.granule_bytes();
    CUdeviceptr address = 0;
    const CUresult reserved = context_.driver().try_mem_address_reserve(
        &address, bytes, arena_.granule_bytes(), CUdeviceptr{0}, 0ull);
    if (context_.driver().succeeded(DriverCall::mem_address_reserve, reserved,
                                    CUDA_ERROR_OUT_OF_MEMORY)) {
      address_ = static_cast<std::uintptr_t>(address);
      address_bytes_ = bytes;
      return true;
    }
    // The process may have a limit, or many pools of large devices. With less address space, holes
    // appear sooner.
    granules /= 2;
  } while (granules * arena_.granule_bytes() >= arena_.bytes());
  return false;
}

/// The lowest adjacent slots without a window.
std::optional<Windows::Number> Windows::find_room(std::size_t size) {
  if (address_ == 0 && !reserve_address_space()) return std::nullopt;
  std::size_t free = 0;  // before `slot`
  for (Number slot = lowest_free_; slot < slots_.size();) {
    const Number window = slots_[slot].window;
    const bool is_free = window == kNone;
    free = is_free ? free + 1 : 0;
    slot = is_free || window == kStuck ? slot + 1 : windows_[window].first + windows_[window].size;
    if (free == size) return slot - static_cast<Number>(size);
  }
  const std::size_t first = slots_.size() - free;
  if ((first + size) * arena_.granule_bytes() > address_bytes_) return std::nullopt;
  return static_cast<Number>(first);
}

/// On failure nothing has changed.
Windows::Number Windows::add_window(Number first, const GranuleSequence& granules) {
  std::size_t shown = 0;
  for (const auto& run : granules.runs()) {
    shown = std::max(shown, std::size_t{run.first} + run.size);
  }
  if (by_granule_.size() < shown) by_granule_.resize(shown, kNone);
  if (slots_.size() < first + granules.size()) slots_.resize(first + granules.size());
  if (unused_.empty()) {
    // So that the removal of windows cannot fail.
    if (unused_.capacity() == windows_.size()) unused_.reserve(2 * windows_.size() + 8);
    chosen_.reserve(unused_.capacity());
    windows_.emplace_back();
    unused_.push_back(static_cast<Number>(windows_.size() - 1));
  }
  const Number window = unused_.back();
  unused_.pop_back();
  windows_[window] = {.first = first, .size = static_cast<Number>(granules.size())};
  for (Number slot = first; const auto& run : granules.runs()) {
    slots_[slot].run = run.size;
    for (Number nth = 0; nth < run.size; ++nth) {
      BERTH_CHECK(slots_[slot].window == kNone && !slots_[slot].is_mapped);
      slots_[slot].granule = run.first + nth;
      slots_[slot].window = window;
      link_slot(slot++);
    }
  }
  if (first == lowest_free_) lowest_free_ += windows_[window].size;
  mappings_ += granules.size();
  link_newest(window);
  return window;
}

void Windows::link_newest(Number window) noexcept {
  windows_[window].newer = kNone;
  windows_[window].older = newest_;
  (newest_ == kNone ? oldest_ : windows_[newest_].newer) = window;
  newest_ = window;
}

void Windows::unlink(Number window) noexcept {
  const auto [newer, older] = std::pair(windows_[window].newer, windows_[window].older);
  (newer == kNone ? newest_ : windows_[newer].older) = older;
  (older == kNone ? oldest_ : windows_[older].newer) = newer;
}

void Windows::link_slot(Number slot) noexcept {
  Slot& it = slots_[slot];
  it.newer = kNone;
  it.older = std::exchange(by_granule_[it.granule], slot);
  if (it.older != kNone) slots_[it.older].newer = slot;
}

void Windows::unlink_slot(Number slot) noexcept {
  const Slot& it = slots_[slot];
  if (it.older != kNone) slots_[it.older].newer = it.newer;
  (it.newer == kNone ? by_granule_[it.granule] : slots_[it.newer].older) = it.older;
}

/// A slot that the driver refuses stays mapped.
void Windows::unmap_slots(Number first, Number end) noexcept {
  const Driver& driver = context_.driver();
  make_host_progress(context_);
  for (Number slot = first; slot < end; ++slot) {
    if (!slots_[slot].is_mapped) continue;
    const DriverRefusal refusal = driver.reported(
        DriverCall::mem_unmap,
        driver.try_mem_unmap(CUdeviceptr{address_of(slot)}, arena_.granule_bytes()));
    slots_[slot].is_mapped = static_cast<bool>(refusal);
    if (refusal) refusal_ = refusal;
  }
}

bool Windows::map_slots(Number window) {
  const Driver& driver = context_.driver();
  const std::size_t granule_bytes = arena_.granule_bytes();
  const auto [first, size, newer, older] = windows_[window];
  const Number end = first + size;
  const auto fail = [&, from = first](DriverCall call, CUresult result) {
    unmap_slots(from, end);
    return driver.succeeded(call, result, CUDA_ERROR_OUT_OF_MEMORY);
  };
  for (Number number = first; number < end; ++number) {
    Slot& slot = slots_[number];
    BERTH_CHECK(arena_.handle(slot.granule) != 0);
    if (slot.is_mapped) continue;  // sleep() could not unmap it, so its granule was kept
    const CUresult result = driver.try_mem_map(CUdeviceptr{address_of(number)}, granule_bytes,
                                               std::size_t{0}, arena_.handle(slot.granule), 0ULL);
    if (result != CUDA_SUCCESS) return fail(DriverCall::mem_map, result);
    slot.is_mapped = true;
  }
  const CUresult result =
      driver.try_mem_set_access(CUdeviceptr{address_of(first)}, size * granule_bytes,
                                arena_.access().data(), arena_.access().size());
  if (result != CUDA_SUCCESS) return fail(DriverCall::mem_set_access, result);
  try {
    arena_.notices().mapped(range_of(window));
  } catch (...) {
    unmap_slots(first, end);
    throw;
  }
  return true;
}

std::optional<std::uintptr_t> Windows::map(const GranuleSequence& granules) {
  const ContextScope scope(context_);
  const std::optional<Number> first = find_room(granules.size());
  if (!first) return std::nullopt;
  const Number window = add_window(*first, granules);
  bool mapped = false;
  try {
    mapped = map_slots(window);
  } catch (...) {
    forget(window);
    throw;
  }
  if (mapped) return address_of(*first);
  forget(window);
  return std::nullopt;
}

/// Drops the record of a window. Slots that are still mapped are not used again until they are not.
void Windows::forget(Number window) noexcept {
  Window& it = windows_[window];
  BERTH_CHECK(it.size > 0 && mappings_ >= it.size);  // forgotten once
  for (Number slot = it.first; slot < it.first + it.size; ++slot) {
    unlink_slot(slot);
    slots_[slot].window = slots_[slot].is_mapped ? kStuck : kNone;
    stuck_count_ += slots_[slot].is_mapped;
  }
  lowest_free_ = std::min(lowest_free_, it.first);
  mappings_ -= it.size;
  unlink(window);
  it.size = 0;
  unused_.push_back(window);
}

void Windows::drop(Number window) noexcept {
  const ContextScope scope(context_, std::nothrow);
  if (!asleep_) arena_.notices().unmapping(range_of(window));
  const Window& it = windows_[window];
  unmap_slots(it.first, it.first + it.size);
  forget(window);
}

DriverRefusal Windows::hold_refused(GranuleNumber first, GranuleNumber end) noexcept {
  if (stuck_count_ == 0 && !asleep_) return {};
  DriverRefusal refusal;
  for (const Slot& slot : slots_) {
    if (!is_refused(slot) || slot.granule < first || slot.granule >= end) continue;
    arena_.hold(slot.granule);
    refusal = refusal_;
  }
  return refusal;
}

DriverRefusal Windows::retry_refused() noexcept {
  if (stuck_count_ == 0 && !asleep_) return {};
  const ContextScope scope(context_, std::nothrow);
  for (Number slot = 0; slot < slots_.size(); ++slot) {
    if (!is_refused(slots_[slot])) continue;
    unmap_slots(slot, slot + 1);
    if (slots_[slot].is_mapped || slots_[slot].window != kStuck) continue;
    slots_[slot].window = kNone;
    lowest_free_ = std::min(lowest_free_, slot);
    --stuck_count_;
  }
  return hold_refused();
}

void Windows::drop_victims() noexcept {
  if (chosen_.empty()) return;
  const ContextScope scope(context_, std::nothrow);
  for (const Number window : chosen_) {
    if (windows_[window].size > 0) drop(window);
  }
  chosen_.clear();
}

void Windows::drop(GranuleNumber first, GranuleNumber end) noexcept {
  for (std::size_t granule = first; granule < end && granule < by_granule_.size(); ++granule) {
    while (by_granule_[granule] != kNone) drop(slots_[by_granule_[granule]].window);
  }
}

DriverRefusal Windows::sleep() noexcept {
  if (asleep_) return {};
  const ContextScope scope(context_, std::nothrow);
  asleep_ = true;
  return put_to_sleep(kNone);
}

/// Unmaps the windows that are older than `end_window`. Memory that any window still shows is held.
DriverRefusal Windows::put_to_sleep(Number end_window) noexcept {
  for (Number window = oldest_; window != end_window; window = windows_[window].newer) {
    arena_.notices().unmapping(range_of(window));
    unmap_slots(windows_[window].first, windows_[window].first + windows_[window].size);
  }
  return hold_refused();
}

bool Windows::wake() {
  const ContextScope scope(context_);
  Number window = oldest_;
  try {
    for (; window != kNone; window = windows_[window].newer) {
      if (map_slots(window)) continue;
      put_to_sleep(window);
      return false;
    }
  } catch (...) {
    put_to_sleep(window);
    throw;
  }
  asleep_ = false;
  return true;
}

void Windows::grant_access(const CUmemAccessDesc& user) {
  if (asleep_) return;
  const ContextScope scope(context_);
  for (Number window = oldest_; window != kNone; window = windows_[window].newer) {
    context_.driver().mem_set_access(CUdeviceptr{address_of(windows_[window].first)},
                                     windows_[window].size * arena_.granule_bytes(), &user,
                                     std::size_t{1});
  }
}

void Windows::drop_all() noexcept {
  while (oldest_ != kNone) drop(oldest_);
}

}  // namespace berth
