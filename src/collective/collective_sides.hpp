// SPDX-License-Identifier: Apache-2.0
// The memory of a collective copy: looked up and checked before anything is submitted.
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

/// One range of memory, and the stream that orders its use.
struct CollectiveSide : MemorySide {
  std::size_t bytes;
  StreamRef stream;

  [[nodiscard]] DeviceContext* device() const { return kind.device; }
  [[nodiscard]] bool is_host() const { return kind.is_host(); }
};

/// The whole and its shards, without empty ones.
struct CollectiveSides {
  CollectiveSide whole;
  std::vector<CollectiveSide> shards;

  /// Each stream once, beginning with the stream of the whole.
  [[nodiscard]] std::vector<StreamRef> streams() const;
  [[nodiscard]] std::size_t bytes_of_shards() const;
};

enum class Collective { scatter, gather, broadcast };

/// Looks up the memory, and throws if a collective of this kind cannot copy it.
/// Errors  As Collectives: InvalidArgument, StreamCaptured, NotSupported, DriverError.
CollectiveSides find_sides(const DeviceRegistry& registry, const OwnHostMemory& own,
                           Collective collective, void* whole, std::size_t bytes, StreamRef stream,
                           std::span<const Shard> shards);

}  // namespace berth
