// SPDX-License-Identifier: Apache-2.0
#include "memory/order/use_lists.hpp"

#include <utility>

namespace berth {

void UseLists::add(Block& block, Use use) {
  bool is_covered = false;
  for_each(block, [&](const Use& other) {
    is_covered |= other.stream == use.stream && other.end.covers(use.end);
  });
  if (is_covered) return;
  drop_if(block, [&](const Use& other) {
    return other.stream == use.stream && use.end.covers(other.end);
  });
  if (spare_ == 0) {
    entries_.emplace_back();
    recycle(static_cast<std::uint32_t>(entries_.size() - 1));
  }
  const std::uint32_t number = spare_;
  spare_ = entries_[number].next;
  entries_[number] = {std::move(use), block.uses.list};
  block.uses.list = number;
}

bool UseLists::lasts(const Block& block, OwnerId stream) const {
  bool lasts = false;
  for_each(block,
           [&](const Use& use) { lasts |= use.stream == stream && use.end.event == nullptr; });
  return lasts;
}

std::vector<UseLists::Use> UseLists::take(Block& block) {
  std::vector<Use> uses;
  drop_if(block, [&](Use& use) {
    uses.push_back(std::move(use));
    return true;
  });
  return uses;
}

}  // namespace berth
