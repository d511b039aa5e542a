// SPDX-License-Identifier: Apache-2.0
// Copies that forward bytes from device to device. Each device fetches on the stream of its own
// shard, so that stream has only the work that fills the shard, and each device receives over one
// direction of its link and sends over the other.
//
//   chain   source > a > b > c      a fetches piece 2 while b fetches piece 1
//   ring    a > b > c > a           each begins with its own slice; in each round, each fetches
//                                   from its predecessor the slice that the predecessor received
//                                   last
//
// Streams wait only for events of earlier submissions, so no cycle of waits is possible.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "berth/collectives.hpp"
#include "berth/transfer.hpp"

#include "collective/collective_sides.hpp"
#include "copy/direct/peer_links.hpp"

namespace berth {

/// The submitted work of a collective copy.
struct CollectiveWork {
  /// Work on the stream `by` reads the memory of the shard whose stream is `of`.
  struct Read {
    StreamRef of;
    StreamRef by;
  };

  std::vector<Transfer> parts;
  std::vector<Read> reads;
  std::vector<std::size_t> bytes_forwarded;  ///< bytes that each shard receives from another shard
};

/// Device memory of equal sizes, in the order of the chain or the ring.
using ShardRow = std::span<const CollectiveSide>;

/// Threads  Safe from any thread.
class BroadcastCopies {
 public:
  BroadcastCopies(Collectives::EventPools events, std::size_t piece_bytes);

  /// A chain or a ring does not speed up a source of this size or less.
  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }

  /// Copies device memory from the source to the first of `row`, from there to the second, and so
  /// on. Their streams already wait for the source's stream.
  /// Errors  DriverError: `work` contains the submitted copies.
  void chain(const CollectiveSide& source, ShardRow row, CollectiveWork& work);

  /// Starts copies of ranges of the source in host memory to the same ranges of shards.
  struct Slice {
    const CollectiveSide* shard;
    std::size_t offset;
    std::size_t bytes;
  };
  using FetchSlices = std::function<void(std::span<const Slice> slices)>;

  /// Each of `row`, which has two or more, receives one slice by `fetch` and the others from its
  /// neighbor.
  /// Errors  As chain(), and those of `fetch`.
  void ring(ShardRow row, const FetchSlices& fetch, CollectiveWork& work);

 private:
  class Link;

  const Collectives::EventPools events_;
  const std::size_t piece_bytes_;
  PeerLinks links_;
};

}  // namespace berth
