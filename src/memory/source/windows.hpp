// SPDX-License-Identifier: Apache-2.0
// Page remap, the mappings: granules of an arena mapped a second time, side by side in a new order.
// A window stays mapped after its block is freed, so that a repeated pattern needs no driver call.
// If there are too many windows, the least recently used ones are removed first.
//
// Two mappings of one granule show the same bytes if the work that wrote through one of them is
// done before work that reads through the other begins. The order of the streams ensures that: a
// granule's bytes get a new user only behind the work of the previous one. Source: CUDA C++
// Programming Guide, "Virtual Aliasing Support".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heap/granule_index.hpp"
#include "memory/source/arena.hpp"
#include "memory/source/granule_sequence.hpp"

namespace berth {

/// Guarded by the slow lock of the allocator that it belongs to: it calls the driver.
class Windows {
 public:
  /// Windows onto granules of `arena`. At most `mappings_max` unused mappings are kept, and there
  /// is address space for twice as many.
  Windows(DeviceContext& context, Arena& arena, std::size_t mappings_max);
  /// Unmaps the remaining windows.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  /// The address at which `granules` are mapped in this order, or nullopt.
  [[nodiscard]] std::optional<std::uintptr_t> find(const GranuleSequence& granules);
  /// Maps them, with the arena's access. nullopt if the driver has no memory for that,
  /// or there is no address space. On failure nothing is mapped.
  /// Errors  DriverError. Those of the arena's notices.
  std::optional<std::uintptr_t> map(const GranuleSequence& granules);
  /// Unmaps all windows that show any of the granules from `first` to before `end`. The device must
  /// be done with these.
  void drop(GranuleNumber first, GranuleNumber end) noexcept;
  void set_mappings_max(std::size_t mappings_max) { mappings_max_ = mappings_max; }
  /// Whether there are more mappings than are kept.
  [[nodiscard]] bool is_over_bound() const { return mappings_ > mappings_max_; }
  /// Chooses windows with a granule for which is_idle(granule) is true, least recently used first,
  /// until the other mappings are within the bound, with some margin.
  template <class IsIdle>
  void choose_victims(const IsIdle& is_idle) {
    chosen_.clear();
    std::size_t mappings = mappings_;
    const std::size_t mappings_kept =
        is_over_bound() ? mappings_max_ - mappings_max_ / kRoomShare : mappings;
    std::size_t looked_at = 0;
    Number window = oldest_;
    for (; window != kNone && mappings > mappings_kept && looked_at < kLookedAt; ++looked_at) {
      if (is_window_idle(window, is_idle)) {
        chosen_.push_back(window);
        mappings -= windows_[window].size;
      }
      window = windows_[window].newer;
    }
    if (looked_at < kLookedAt) return;
    while (oldest_ != window) {  // the next call continues with others
      const Number seen = oldest_;
      unlink(seen);
      link_newest(seen);
    }
  }
  /// Unmaps the chosen windows that still exist.
  void drop_victims() noexcept;
  void cancel_drop() noexcept { chosen_.clear(); }
  /// Unmaps windows for which is_used(address, bytes) is false.
  template <class IsUsed>
  void drop_unused(const IsUsed& is_used) noexcept {
    for (Number window = oldest_; window != kNone;) {
      const Number next = windows_[window].newer;
      if (!is_used(address_of(windows_[window].first),
                   windows_[window].size * arena_.granule_bytes())) {
        drop(window);
      }
      window = next;
    }
  }
  void drop_all() noexcept;
  /// Makes the arena hold the granules from `first` to before `end`, by default all, that are still
  /// mapped where the driver refused to unmap a window. Returns such a refusal, if there are any.
  DriverRefusal hold_refused(GranuleNumber first = 0,
                             GranuleNumber end = ~GranuleNumber{0}) noexcept;
  /// Tries again to unmap what the driver refused to unmap. Then does the same for all granules.
  DriverRefusal retry_refused() noexcept;

  /// Allows another device access to present mappings; later ones follow the arena.
  /// Errors  DriverError: it may have access to some of them.
  void grant_access(const CUmemAccessDesc& user);

  /// Unmaps all, but keeps their addresses. The device must be done with them. If the driver
  /// refuses to unmap a slot, it stays mapped, the arena holds its granule, and the result is the
  /// refusal.
  DriverRefusal sleep() noexcept;
  /// Maps them again, to the current memory of the granules. False if the driver has no memory for
  /// that; they are still asleep then.
  /// Errors  DriverError: likewise.
  bool wake();

  [[nodiscard]] std::size_t mappings() const { return mappings_; }

 private:
  using Number = std::uint32_t;
  static constexpr Number kNone = ~Number{0};
  static constexpr Number kStuck = kNone - 1;  ///< a slot that no window has, still mapped
  /// Windows at a time, and granules of each, bounded because other threads wait meanwhile.
  static constexpr std::size_t kLookedAt = 1024;
  static constexpr std::size_t kGranulesLookedAt = 16;
  /// A query for idle memory also costs driver calls, so more than one window is removed.
  static constexpr std::size_t kRoomShare = 32;

  /// Address space for one granule.
  struct Slot {
    GranuleNumber granule = 0;
    Number run = 0;        ///< of the first slot of a run: its size
    Number newer = kNone;  ///< slots that map the same granule
    Number older = kNone;
    Number window = kNone;  ///< the window of the slot
    bool is_mapped = false;
  };
  struct Window {
    Number first = 0;      ///< slot
    Number size = 0;       ///< slots; 0: no window
    Number newer = kNone;  ///< by last use
    Number older = kNone;
  };

  template <class IsIdle>
  [[nodiscard]] bool is_window_idle(Number window, const IsIdle& is_idle) const {
    const auto [first, size, newer, older] = windows_[window];
    const Number step = 1 + static_cast<Number>(size / kGranulesLookedAt);
    for (Number slot = first; slot < first + size; slot += step) {
      if (is_idle(slots_[slot].granule)) return true;
    }
    return false;
  }
  /// Whether the driver has refused to unmap the slot.
  [[nodiscard]] bool is_refused(const Slot& slot) const {
    return slot.is_mapped && (asleep_ || slot.window == kStuck);
  }
  [[nodiscard]] std::uintptr_t address_of(Number slot) const {
    return address_ + slot * arena_.granule_bytes();
  }
  bool reserve_address_space();
  std::optional<Number> find_room(std::size_t size);
  Number add_window(Number first, const GranuleSequence& granules);
  [[nodiscard]] bool shows(Number window, const GranuleSequence& granules) const;
  void link_newest(Number window) noexcept;
  void unlink(Number window) noexcept;
  void link_slot(Number slot) noexcept;
  void unlink_slot(Number slot) noexcept;
  bool map_slots(Number window);
  void unmap_slots(Number first, Number end) noexcept;
  [[nodiscard]] MappingNotices::Range range_of(Number window) const {
    return {address_of(windows_[window].first), windows_[window].size * arena_.granule_bytes(),
            arena_.granule_bytes(), true};
  }
  DriverRefusal put_to_sleep(Number end_window) noexcept;
  void forget(Number window) noexcept;
  void drop(Number window) noexcept;

  DeviceContext& context_;
  Arena& arena_;
  const std::size_t address_space_granules_;
  std::size_t mappings_max_;
  std::size_t mappings_ = 0;
  bool asleep_ = false;
  std::vector<Slot> slots_;  ///< by address, up to the highest slot ever used
  std::vector<Window> windows_;
  std::vector<Number> unused_;      ///< of `windows_`
  std::vector<Number> by_granule_;  ///< the newest slot that shows it
  std::vector<Number> chosen_;      ///< windows to be dropped
  Number newest_ = kNone;
  Number oldest_ = kNone;
  std::uintptr_t address_ = 0;  ///< of all address space for windows; 0: none yet
  std::size_t address_bytes_ = 0;
  Number lowest_free_ = 0;       ///< slot; all below are in use
  std::size_t stuck_count_ = 0;  ///< slots
  DriverRefusal refusal_;        ///< the last one to unmap a slot
};

}  // namespace berth
