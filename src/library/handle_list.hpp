// SPDX-License-Identifier: Apache-2.0
// The handles of one library on one device: which there are, which are idle, and to which streams
// they are bound. Knows neither the library nor the driver.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "berth/detail/handle_store.hpp"
#include "berth/device_allocator.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

namespace berth {

/// One handle. `stream` and `workspace_stream` change under the lock of the store, because streams
/// may be retired at any time; the rest belongs to whoever holds the handle, and to nobody while it
/// is idle.
struct detail::HandleStore::Item {
  explicit Item(DeviceContext& context_) : context(context_) {}

  DeviceContext& context;
  void* handle = nullptr;
  std::optional<StreamRef> stream;            ///< that it is bound to; none: bind it before use
  std::optional<StreamRef> workspace_stream;  ///< that `workspace` is ordered on, while that exists
  Allocation workspace;
  Allocation captured_workspace;        ///< of a lease for captured work, until it ends
  std::optional<EventLease> last_work;  ///< marks that of the last lease, where handles keep memory
  std::unique_ptr<Item> next;           ///< among those that are removed together
};

/// Guarded by the lock of the store.
class HandleList {
 public:
  using Item = detail::HandleStore::Item;

  explicit HandleList(DeviceContext& context) : context_(context) {}

  [[nodiscard]] DeviceContext& context() const { return context_; }
  /// With the places of those that are about to be added.
  [[nodiscard]] std::size_t count() const { return items_.size() + places_; }
  [[nodiscard]] std::size_t live_count() const { return items_.size(); }
  [[nodiscard]] std::size_t idle_count() const { return idle_.size(); }

  /// An idle one that is bound to `stream`; null where there is none.
  Item* take_bound(StreamRef stream);
  /// Whichever is missed least: one that is not bound, or else that which has been idle longest.
  /// Null where none is idle.
  Item* take_any();
  /// Cannot fail.
  void put_back(Item& item) noexcept { idle_.push_back(&item); }

  /// A place is for one that will be added, or given up.
  void reserve_place();
  void give_up_place() noexcept { --places_; }
  /// Takes a place; the item is on lease. Cannot fail.
  Item& add(std::unique_ptr<Item> item) noexcept;
  /// One that is not idle.
  std::unique_ptr<Item> remove(const Item& item) noexcept;
  /// All that are idle, before those of `others`.
  std::unique_ptr<Item> remove_idle(std::unique_ptr<Item> others) noexcept;

  void retire_stream(StreamRef stream) noexcept;
  /// All that there are, at the end.
  void abandon(const std::function<void(void* handle)>& abandon_handle) const;

 private:
  Item* take(std::size_t index);

  DeviceContext& context_;
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<Item*> idle_;  ///< that which came back last is the last
  std::size_t places_ = 0;
};

}  // namespace berth
