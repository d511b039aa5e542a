// SPDX-License-Identifier: Apache-2.0
// Blocks that other streams use and that are freed, and events that are nothing but a name: what
// BlockUses is told of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_records.hpp"
#include "memory/order/block_uses.hpp"

namespace berth::test {

/// An event that only its identity is asked of: nothing is behind it.
inline SharedEvent fake_event() {
  const auto identity = std::make_shared<int>(0);
  return {identity, reinterpret_cast<const EventLease*>(identity.get())};
}

/// Live blocks, and the streams that use each until it is freed.
inline std::map<const Block*, std::vector<OwnerId>>& users() {
  static std::map<const Block*, std::vector<OwnerId>> users;
  return users;
}

inline Block& used_block(const std::vector<OwnerId>& streams) {
  static BlockRecords records;
  Block& block = records.make();
  block.bytes = 512;
  block.set_state(Block::State::allocated);
  block.uses = {0, 0};
  users()[&block] = streams;
  return block;
}

/// Frees a block behind `ends`, which become marks in this order.
inline void free_block(BlockUses& uses, Block& block, const std::vector<BlockUses::Use>& ends) {
  for (auto use = ends.rbegin(); use != ends.rend(); ++use) uses.add(block, *use);
  block.set_state(Block::State::pending);
  uses.defer(block);
}

inline void free_block(BlockUses& uses, Block& block) {
  std::vector<BlockUses::Use> lasting;
  for (const OwnerId stream : users().at(&block)) lasting.push_back({stream, {}});
  free_block(uses, block, lasting);
}

/// An event that is recorded now, while nothing else happens.
inline RecordedEvent record(BlockUses& uses) {
  const std::uint64_t began = uses.now();
  return {fake_event(), began, uses.tick()};
}

/// Frees a block that `stream` used up to `end`.
inline Block& free_used_block(BlockUses& uses, OwnerId stream, const RecordedEvent& end) {
  Block& block = used_block({stream});
  free_block(uses, block, {{stream, end}});
  return block;
}

using Blocks = std::vector<Block*>;

/// The blocks that are ready with `event`.
inline Blocks complete(BlockUses& uses, OwnerId stream, const SharedEvent& event) {
  Blocks ready;
  const std::size_t count =
      uses.complete(stream, event, [&](Block& block) { ready.push_back(&block); });
  REQUIRE(count == ready.size());
  return ready;
}

}  // namespace berth::test
