// SPDX-License-Identifier: Apache-2.0
#include "pjrt/opened_plugins.hpp"

#include <utility>

#include "base/check.hpp"

namespace berth::pjrt {

const Api* OpenedPlugins::find_or_begin(const Table& table, std::size_t& number) {
  origin_.require_here("a PJRT plug-in");
  const MutexLock lock(mutex_);
  for (number = 0; number < all_.size() && all_[number].table != &table;) ++number;
  if (number == all_.size()) all_.push_back({.table = &table, .api = nullptr});
  while (all_[number].is_beginning) ended_.wait(mutex_);
  Plugin& plugin = all_[number];
  if (plugin.api == nullptr) plugin.is_beginning = true;
  return plugin.api.get();
}

void OpenedPlugins::end(std::size_t number, std::unique_ptr<const Api> api) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(number < all_.size() && all_[number].is_beginning);
  all_[number].api = std::move(api);
  all_[number].is_beginning = false;
  ended_.notify_all();
}

const Api* OpenedPlugins::of_number(std::size_t number) {
  const MutexLock lock(mutex_);
  return number < all_.size() ? all_[number].api.get() : nullptr;
}

OpenedPlugins& opened_plugins() {
  static auto& kept = *new OpenedPlugins;
  return kept;
}

}  // namespace berth::pjrt
