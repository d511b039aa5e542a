// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/ready_copies.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "copy/staged/staged_copy.hpp"

namespace berth {

void ReadyCopies::add(const CopyPtr& copy, int priority) {
  const auto level = levels_.try_emplace(priority).first;
  try {
    level->second.others.push_back(copy);
  } catch (...) {
    if (level->second.ready.empty() && level->second.others.empty()) levels_.erase(level);
    throw;
  }
  copy->place = {level, std::prev(level->second.others.end()), false};
  ++size_;
}

void ReadyCopies::remove(StagedCopy& copy) noexcept {
  Level& level = copy.place.level->second;
  (copy.place.is_ready ? level.ready : level.others).erase(copy.place.at);
  if (level.ready.empty() && level.others.empty()) levels_.erase(copy.place.level);
  --size_;
}

bool ReadyCopies::update(StagedCopy& copy) noexcept {
  Place& place = copy.place;
  const bool is_ready = copy.has_piece();
  if (is_ready == place.is_ready) return false;
  Level& level = place.level->second;
  if (is_ready)
    level.ready.splice(level.ready.end(), level.others, place.at);
  else
    level.others.splice(level.others.end(), level.ready, place.at);
  place.is_ready = is_ready;
  return is_ready;
}

ReadyCopies::CopyPtr ReadyCopies::next() noexcept {
  for (auto& [priority, level] : levels_) {
    if (level.ready.empty()) continue;
    level.ready.splice(level.ready.end(), level.ready, level.ready.begin());
    BERTH_CHECK(level.ready.back()->has_piece());  // update() follows each change
    return level.ready.back();
  }
  return nullptr;
}

bool ReadyCopies::has_any() const {
  return std::ranges::any_of(levels_, [](const auto& each) { return !each.second.ready.empty(); });
}

}  // namespace berth
