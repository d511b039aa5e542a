// SPDX-License-Identifier: Apache-2.0
// Blocks that were freed, and events that are nothing but a name: what DeferredFrees is told of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "memory/heap/block_records.hpp"
#include "memory/order/deferred_frees.hpp"

namespace berth::test {

/// An event that only its identity is asked of: nothing is behind it.
inline SharedEvent fake_event() {
  const auto identity = std::make_shared<int>(0);
  return {identity, reinterpret_cast<const EventLease*>(identity.get())};
}

/// Pending blocks, and the streams that each waits for.
inline std::map<const Block*, std::vector<OwnerId>>& uses() {
  static std::map<const Block*, std::vector<OwnerId>> uses;
  return uses;
}

inline Block& pending_block(const std::vector<OwnerId>& streams) {
  static BlockRecords records;
  Block& block = records.make();
  block.bytes = 512;
  block.set_state(Block::State::pending);
  block.uses = {0, 0};
  uses()[&block] = streams;
  return block;
}

inline void add(DeferredFrees& deferred, Block& block) {
  std::vector<UseLists::Use> lasting;
  for (const OwnerId stream : uses().at(&block)) lasting.push_back({stream, {}});
  deferred.add(block, lasting);
}

/// An event that is recorded now, while nothing else happens.
inline RecordedEvent record(DeferredFrees& deferred) {
  const std::uint64_t began = deferred.now();
  return {fake_event(), began, deferred.tick()};
}

/// Frees a block that `stream` used up to `end`.
inline Block& add_used(DeferredFrees& deferred, OwnerId stream, const RecordedEvent& end) {
  Block& block = pending_block({stream});
  deferred.add(block, {{stream, end}});
  return block;
}

using Blocks = std::vector<Block*>;

}  // namespace berth::test
