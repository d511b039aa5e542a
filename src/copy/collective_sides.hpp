// SPDX-License-Identifier: Apache-2.0
// What a collective copy is between, looked up and found to make sense, before anything is
// submitted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "berth/collectives.hpp"
#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/stream.hpp"

#include "copy/operand/memory_kind.hpp"

namespace berth {

/// Memory of one place, and the stream in whose order it is used.
struct CollectiveSide : MemorySide {
  std::size_t bytes;
  StreamRef stream;

  [[nodiscard]] DeviceContext* device() const { return kind.device; }
  [[nodiscard]] bool is_host() const { return kind.is_host(); }
};

/// The whole and its shards, those without bytes left out.
struct CollectiveSides {
  CollectiveSide whole;
  std::vector<CollectiveSide> shards;

  /// Each once, the whole's first.
  [[nodiscard]] std::vector<StreamRef> streams() const;
};

enum class Collective { scatter, gather, broadcast };

/// Looks the memory up, and refuses what no copy of this kind can be of.
/// Errors  As Collectives: InvalidArgument, StreamCaptured, NotSupported, DriverError.
CollectiveSides find_sides(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                           Collective collective, void* whole, std::size_t bytes, StreamRef stream,
                           std::span<const Shard> shards);

}  // namespace berth
