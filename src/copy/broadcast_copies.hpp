// SPDX-License-Identifier: Apache-2.0
// Copies that hand bytes on from device to device. Each device fetches, on the stream of its own
// shard: that stream holds what fills the shard and nothing else, and of each device's links one
// direction carries what comes and the other what goes.
//
//   chain   source > a > b > c      a takes piece 2 while b takes piece 1
//   ring    a > b > c > a           each begins with a slice of its own; in each round each takes
//                                   from its predecessor the slice that the latter got last
//
// Streams wait for events of earlier submissions only, so they cannot wait for each other in a
// circle.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "berth/collectives.hpp"
#include "berth/transfer.hpp"

#include "copy/collective_sides.hpp"
#include "copy/direct/peer_links.hpp"

namespace berth {

/// What a collective copy has submitted so far.
struct CollectiveWork {
  /// Work on the stream `by` reads the memory of a shard, whose stream is `of`.
  struct Read {
    StreamRef of;
    StreamRef by;
  };

  std::vector<Transfer> parts;
  std::vector<Read> reads;
  std::vector<std::size_t> handed_on;  ///< bytes that each shard got from another one
};

/// Memory of devices, `bytes` each, in the order of the chain or the ring.
using ShardRow = std::span<const CollectiveSide>;

/// Threads  Safe from any thread.
class BroadcastCopies {
 public:
  BroadcastCopies(Collectives::EventPools events, std::size_t piece_bytes);

  /// What is no larger gains nothing by being handed on.
  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }

  /// From the source, device memory, to the first of `row`, from that to the next, and so on. Their
  /// streams are behind the source's already.
  /// Errors  DriverError: `work` has what was submitted.
  void chain(const CollectiveSide& source, ShardRow row, CollectiveWork& work);

  /// Starts the copies of the host's ranges into the same ranges of shards.
  struct Slice {
    const CollectiveSide* shard;
    std::size_t offset;
    std::size_t bytes;
  };
  using FetchSlices = std::function<void(std::span<const Slice> slices)>;

  /// Each of `row`, which are two or more, fetches a slice by `fetch`, and the others from its
  /// neighbour.
  /// Errors  As chain(), and those of `fetch`.
  void ring(ShardRow row, const FetchSlices& fetch, CollectiveWork& work);

 private:
  class Link;

  const Collectives::EventPools events_;
  const std::size_t piece_bytes_;
  PeerLinks links_;
};

}  // namespace berth
