// SPDX-License-Identifier: Apache-2.0
// The handles of one library on one device: all handles, the idle ones, and their streams. Calls
// neither the library nor the driver.
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
/// may be retired at any time; the rest belongs to the holder of the lease; while the handle is
/// idle, it is not accessed.
struct detail::HandleStore::Item {
  explicit Item(DeviceContext& context_) : context(context_) {}

  DeviceContext& context;
  void* handle = nullptr;
  std::optional<StreamRef> stream;            ///< to which it is bound; none: bind it before use
  std::optional<StreamRef> workspace_stream;  ///< on which `workspace` is ordered, if it exists
  Allocation workspace;
  Allocation captured_workspace;        ///< of a lease for captured work, until it ends
  std::optional<EventLease> last_work;  ///< of the last lease, if handles keep memory
  std::unique_ptr<Item> next;           ///< among those that are removed together
};

/// Guarded by the lock of the store.
class HandleList {
 public:
  using Item = detail::HandleStore::Item;

  explicit HandleList(DeviceContext& context) : context_(context) {}

  [[nodiscard]] DeviceContext& context() const { return context_; }
  /// Including the places of handles that are being created.
  [[nodiscard]] std::size_t count() const { return items_.size() + places_; }
  [[nodiscard]] std::size_t live_count() const { return items_.size(); }
  [[nodiscard]] std::size_t idle_count() const { return idle_.size(); }

  /// An idle handle that is bound to `stream`; null if there is none.
  Item* take_bound(StreamRef stream);
  /// The idle handle that is least useful to others: one that is not bound, otherwise the one that
  /// has been idle longest. Null if none is idle.
  Item* take_any();
  /// The handle must not be idle. Cannot fail.
  void put_back(Item& item) noexcept;

  /// A place is for a handle that will be added, or cancelled.
  void reserve_place();
  void give_up_place() noexcept;
  /// Takes a place; the item is on lease. Cannot fail.
  Item& add(std::unique_ptr<Item> item) noexcept;
  /// The handle must not be idle.
  std::unique_ptr<Item> remove(const Item& item) noexcept;
  /// Prepends all idle handles to `others`.
  std::unique_ptr<Item> remove_idle(std::unique_ptr<Item> others) noexcept;

  void retire_stream(StreamRef stream) noexcept;
  /// All handles, at the end.
  void abandon(const std::function<void(void* handle)>& abandon_handle) const;

 private:
  Item* take(std::size_t index);

  DeviceContext& context_;
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<Item*> idle_;  ///< the most recently returned handle is last
  std::size_t places_ = 0;
};

}  // namespace berth
