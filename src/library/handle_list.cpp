// SPDX-License-Identifier: Apache-2.0
#include "library/handle_list.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace berth {

HandleList::Item* HandleList::take(std::size_t index) {
  Item* const item = idle_[index];
  idle_.erase(idle_.begin() + std::ptrdiff_t(index));
  return item;
}

HandleList::Item* HandleList::take_bound(StreamRef stream) {
  for (std::size_t index = idle_.size(); index-- > 0;) {
    if (idle_[index]->stream == stream) return take(index);
  }
  return nullptr;
}

HandleList::Item* HandleList::take_any() {
  if (idle_.empty()) return nullptr;
  const auto unbound =
      std::ranges::find_if(idle_, [](const Item* item) { return !item->stream.has_value(); });
  return take(unbound == idle_.end() ? 0 : std::size_t(unbound - idle_.begin()));
}

void HandleList::put_back(Item& item) noexcept {
  BERTH_CHECK(std::ranges::find(idle_, &item) == idle_.end());  // a lease ends once
  BERTH_CHECK(idle_.size() < idle_.capacity());
  idle_.push_back(&item);
}

void HandleList::reserve_place() {
  items_.reserve(count() + 1);
  idle_.reserve(count() + 1);
  ++places_;
}

void HandleList::give_up_place() noexcept {
  BERTH_CHECK(places_ > 0);
  --places_;
}

HandleList::Item& HandleList::add(std::unique_ptr<Item> item) noexcept {
  give_up_place();
  BERTH_CHECK(items_.size() < items_.capacity());
  return *items_.emplace_back(std::move(item));
}

std::unique_ptr<HandleList::Item> HandleList::remove(const Item& item) noexcept {
  BERTH_CHECK(std::ranges::find(idle_, &item) == idle_.end());  // or it would be leased again
  const auto found =
      std::ranges::find_if(items_, [&](const auto& owned) { return owned.get() == &item; });
  BERTH_CHECK(found != items_.end());
  std::unique_ptr<Item> removed = std::move(*found);
  items_.erase(found);
  return removed;
}

std::unique_ptr<HandleList::Item> HandleList::remove_idle(std::unique_ptr<Item> others) noexcept {
  while (const Item* const item = take_any()) {
    std::unique_ptr<Item> removed = remove(*item);
    removed->next = std::move(others);
    others = std::move(removed);
  }
  return others;
}

void HandleList::retire_stream(StreamRef stream) noexcept {
  for (const auto& item : items_) {
    if (item->stream == stream) item->stream.reset();
    if (item->workspace_stream == stream) item->workspace_stream.reset();
  }
}

void HandleList::abandon(const std::function<void(void* handle)>& abandon_handle) const {
  for (const auto& item : items_) abandon_handle(item->handle);
}

}  // namespace berth
