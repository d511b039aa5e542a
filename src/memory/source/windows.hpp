// SPDX-License-Identifier: Apache-2.0
// Page remap, the mappings: granules of an arena mapped a second time, side by side in an order of
// their own. A window stays mapped when nothing is in it any more, so that a pattern that comes back
// costs no driver call; where there are too many, those go first that were wanted longest ago.
//
// Two mappings of one granule show the same bytes once the work that wrote through one of them is
// done and before work that reads through the other begins. The order of the streams sees to that:
// a granule's bytes change hands only behind the work of whoever had them.
// Source: CUDA C++ Programming Guide, "Virtual Aliasing Support".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "memory/source/arena.hpp"

namespace berth {

/// A granule of an arena, counted from its beginning.
using GranuleNumber = std::uint32_t;

/// Guarded by the slow lock of the allocator that it belongs to: it calls the driver.
class Windows {
 public:
  /// Onto granules of `arena`. At most `mappings_max` are kept beside those that are in use.
  Windows(DeviceContext& context, Arena& arena, std::size_t mappings_max);
  /// Unmaps what is left.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  /// Where `granules` are mapped in this order already; nullopt where they are not.
  [[nodiscard]] std::optional<std::uintptr_t> find(std::span<const GranuleNumber> granules);
  /// Maps them, with the arena's access. nullopt where the driver has no memory for that,
  /// or there is no address space. On failure nothing is mapped.
  /// Errors  DriverError.
  std::optional<std::uintptr_t> map(std::span<const GranuleNumber> granules);

  /// Unmaps all windows that show any of the granules from `first` to before `end`. The device must
  /// be done with these.
  void drop(GranuleNumber first, GranuleNumber end) noexcept;
  /// Whether there are more mappings than are to be kept.
  [[nodiscard]] bool is_over_bound() const { return mappings_ > mappings_max_; }
  /// Unmaps windows of which `is_idle(granule)` says of one granule that nothing uses it, those first
  /// that were wanted longest ago, until mappings are within the bound.
  template <class IsIdle>
  void drop_to_bound(const IsIdle& is_idle) noexcept {
    for (auto window = by_use_.begin(); window != by_use_.end() && is_over_bound();) {
      const auto next = std::next(window);
      bool idle = false;
      for (const GranuleNumber granule : window->granules) idle = idle || is_idle(granule);
      if (idle) drop(window);
      window = next;
    }
  }
  /// Unmaps those of which `is_used(address, bytes)` says that nothing is in them.
  template <class IsUsed>
  void drop_unused(const IsUsed& is_used) noexcept {
    for (auto window = by_use_.begin(); window != by_use_.end();) {
      const auto next = std::next(window);
      if (!is_used(window->address, window->granules.size() * arena_.granule_bytes())) drop(window);
      window = next;
    }
  }
  void drop_all() noexcept;

  /// Allows another device what the arena allows: for what is mapped. For what will be, the arena says.
  /// Errors  DriverError: it has access to some, perhaps.
  void let_in(const CUmemAccessDesc& user);

  /// Unmaps all, but keeps their addresses. The device must be done with them.
  void sleep() noexcept;
  /// Maps them again, onto what the granules have now. False where the driver has no memory for that:
  /// asleep as before then.
  /// Errors  DriverError: likewise.
  bool wake();

  [[nodiscard]] std::size_t mappings() const { return mappings_; }

 private:
  struct Window {
    std::vector<GranuleNumber> granules;
    std::uintptr_t address;
  };
  using ByUse = std::list<Window>;

  [[nodiscard]] bool shows(const Window& window, std::span<const GranuleNumber> granules) const;
  bool reserve_address_space();
  std::optional<std::uintptr_t> take_address_space(std::size_t bytes);
  void give_back_address_space(std::uintptr_t address, std::size_t bytes);
  bool map_at(std::uintptr_t address, std::span<const GranuleNumber> granules, bool& gone);
  bool unmap(std::uintptr_t address, std::size_t granules) noexcept;
  void index(ByUse::iterator window);
  void forget(ByUse::iterator window, bool gone) noexcept;
  void drop(ByUse::iterator window) noexcept;

  DeviceContext& context_;
  Arena& arena_;
  const std::size_t mappings_max_;
  std::size_t mappings_ = 0;
  bool asleep_ = false;
  ByUse by_use_;                                          ///< wanted longest ago first
  std::vector<std::vector<ByUse::iterator>> by_granule_;  ///< windows that show it, each once
  std::uintptr_t address_ = 0;  ///< of all address space for windows; 0: none yet
  std::size_t address_bytes_ = 0;
  std::map<std::uintptr_t, std::size_t> free_;  ///< address space, by address
};

}  // namespace berth
