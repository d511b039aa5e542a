// SPDX-License-Identifier: Apache-2.0
#include "memory/order/use_lists.hpp"

namespace berth {

void UseLists::add(Block& block, OwnerId stream) {
  bool known = false;
  for_each(block, [&](OwnerId other) { known |= other == stream; });
  if (known) return;
  std::uint32_t number = spare_;
  if (number != 0) {
    spare_ = entries_[number].next;
  } else {
    number = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  entries_[number] = {stream, block.uses.list};
  block.uses.list = number;
}

void UseLists::clear(Block& block) {
  drop_if(block, [](OwnerId) { return true; });
}

}  // namespace berth
