// SPDX-License-Identifier: Apache-2.0
// A collective copy consists of checks, a fork of the streams, copies, and a join. Only the copies
// differ.
#include "berth/collectives.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/completion_queue.hpp"
#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/check.hpp"
#include "collective/broadcast_copies.hpp"
#include "collective/broadcast_route.hpp"
#include "collective/collective_sides.hpp"
#include "copy/transfer/composite_transfer.hpp"
#include "copy/transfer/transfer_end.hpp"
#include "device/device_context.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

/// A program may request pieces larger than any memory to disable splitting. One and a half times
/// the size must not wrap around.
constexpr std::size_t kPieceBytesMax = 1024_GiB;

/// Submitting this number of pieces takes less time than copying one.
constexpr std::size_t kPiecesPerTurn = 8;

std::vector<Device> devices_of(std::span<const CollectiveSide> sides) {
  std::vector<Device> devices;
  for (const CollectiveSide& side : sides) devices.push_back(side.device()->device());
  return devices;
}

std::vector<CollectiveSide> in_order(std::span<const CollectiveSide> sides,
                                     const std::vector<std::size_t>& order) {
  std::vector<CollectiveSide> ordered;
  for (const std::size_t index : order) ordered.push_back(sides[index]);
  return ordered;
}

std::size_t bytes_of(const std::vector<Transfer>& parts) {
  std::size_t bytes = 0;
  for (const Transfer& part : parts) bytes += part.bytes();
  return bytes;
}

bool is_pageable(const CollectiveSide& side) {
  return side.kind.is_pageable();
}

/// Events behind the pending work of streams, at most one for each stream.
class Marks {
 public:
  explicit Marks(const Collectives::EventPools& events) : events_(events) {}

  void add(StreamRef stream) {
    if (find(stream) != marks_.end()) return;
    marks_.push_back({stream, events_(stream.context()).acquire()});
    record_unchecked(marks_.back().event, stream);
  }
  /// The event of a stream; the stream has been added.
  [[nodiscard]] EventRef of(StreamRef stream) {
    const auto found = find(stream);
    BERTH_CHECK(found != marks_.end());
    return found->event;
  }

 private:
  struct Mark {
    StreamRef stream;
    EventLease event;
  };

  std::vector<Mark>::iterator find(StreamRef stream) {
    return std::ranges::find(marks_, stream, &Mark::stream);
  }

  const Collectives::EventPools& events_;
  std::vector<Mark> marks_;
};

}  // namespace

class BERTH_HIDDEN Collectives::Impl {
 public:
  Impl(const DeviceRegistry& registry, const OwnHostMemory& own, Copier& copier,
       CompletionQueue& completions, const EventPools& events, std::size_t piece_bytes)
      : registry_(registry),
        own_(own),
        copier_(copier),
        completions_(completions),
        events_(events),
        piece_bytes_(std::min(piece_bytes, kPieceBytesMax)),
        broadcasts_(events, piece_bytes_) {}

  /// A scatter or a gather: copies between consecutive ranges of the whole and the shards.
  Transfer divide(Collective collective, void* whole, std::size_t bytes, StreamRef stream,
                  std::span<const Shard> shards, TransferOptions options) {
    const CollectiveSides sides =
        find_sides(registry_, own_, collective, whole, bytes, stream, shards);
    return run(sides, std::move(options), [&](const PartOptions& of_part, Work& work) {
      std::vector<Part> parts;
      std::byte* range = sides.whole.data;
      for (const CollectiveSide& shard : sides.shards) {
        const bool is_target = collective == Collective::scatter;
        std::byte* const to = is_target ? shard.data : range;
        const std::byte* const from = is_target ? range : shard.data;
        parts.push_back({to, from, shard.bytes, shard.stream});
        range += shard.bytes;
      }
      BERTH_CHECK(range == sides.whole.data + sides.whole.bytes);  // each byte has one shard
      start(parts, of_part, work);
    });
  }

  Transfer broadcast(void* source, std::size_t bytes, StreamRef stream,
                     std::span<const Shard> targets, TransferOptions options) {
    const CollectiveSides sides =
        find_sides(registry_, own_, Collective::broadcast, source, bytes, stream, targets);
    return run(sides, std::move(options), [&](const PartOptions& of_part, Work& work) {
      if (bytes <= broadcasts_.piece_bytes())
        fetch_each(sides.whole, sides.shards, of_part, work);
      else if (sides.whole.is_host())
        broadcast_from_host(sides, of_part, work);
      else
        broadcast_from_device(sides, of_part, work);
    });
  }

 private:
  using Work = CollectiveWork;

  /// One copy, made by the Copier.
  struct Part {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
    StreamRef stream;
  };

  /// Options shared by all parts of a call.
  struct PartOptions {
    TransferOptions options;
    bool has_pageable;  ///< some of the memory is pageable
  };

  /// Starts all copies in turns: one piece of each copy in the first turn, many in later turns, so
  /// that the last stream is not idle while the whole first copy is submitted. A staged copy is not
  /// split, because the second part would wait for the staging memory of the first.
  void start(std::span<const Part> parts, const PartOptions& of_part, Work& work) {
    std::size_t turn_bytes = of_part.has_pageable ? SIZE_MAX : piece_bytes_;
    std::vector<Part> left(parts.begin(), parts.end());
    while (!left.empty()) {
      for (Part& part : left) {
        const std::size_t bytes = std::min(part.bytes, turn_bytes);
        BERTH_CHECK(bytes > 0);  // each turn submits a piece of each copy
        work.parts.push_back(
            copier_.start_part(part.to, part.from, bytes, part.stream, of_part.options));
        part = {part.to + bytes, part.from + bytes, part.bytes - bytes, part.stream};
      }
      std::erase_if(left, [](const Part& part) { return part.bytes == 0; });
      turn_bytes = kPiecesPerTurn * piece_bytes_;
    }
  }

  /// Copies the whole to each shard directly.
  void fetch_each(const CollectiveSide& whole, std::span<const CollectiveSide> shards,
                  const PartOptions& of_part, Work& work) {
    std::vector<Part> parts;
    for (const CollectiveSide& to : shards)
      parts.push_back({to.data, whole.data, to.bytes, to.stream});
    start(parts, of_part, work);
  }

  void broadcast_from_host(const CollectiveSides& sides, const PartOptions& of_part, Work& work) {
    std::vector<CollectiveSide> alone;
    for (const std::vector<std::size_t>& island : islands(devices_of(sides.shards), peers())) {
      const std::vector<CollectiveSide> row = in_order(sides.shards, island);
      if (row.size() == 1) {
        alone.push_back(row.front());
        continue;
      }
      const auto fetch = [&](std::span<const BroadcastCopies::Slice> slices) {
        std::vector<Part> parts;
        for (const auto& [shard, offset, of_bytes] : slices) {
          parts.push_back(
              {shard->data + offset, sides.whole.data + offset, of_bytes, shard->stream});
        }
        start(parts, of_part, work);
      };
      broadcasts_.ring(row, fetch, work);
    }
    fetch_each(sides.whole, alone, of_part, work);
  }

  void broadcast_from_device(const CollectiveSides& sides, const PartOptions& of_part, Work& work) {
    std::vector<CollectiveSide> of_host;
    std::vector<CollectiveSide> of_devices;
    for (const CollectiveSide& shard : sides.shards)
      (shard.is_host() ? of_host : of_devices).push_back(shard);
    fetch_each(sides.whole, of_host, of_part, work);
    if (of_devices.empty()) return;
    const std::vector<std::size_t> order =
        chain_order(sides.whole.device()->device(), devices_of(of_devices), peers());
    broadcasts_.chain(sides.whole, in_order(of_devices, order), work);
  }

  [[nodiscard]] PeersOf peers() const {
    return [this](Device from, Device to) -> const PeerFacts& { return registry_.peer(from, to); };
  }

  /// The common part of all collectives. `submit` submits each copy on its shard's stream.
  template <class Submit>
  Transfer run(const CollectiveSides& sides, TransferOptions options, const Submit& submit) {
    if (sides.whole.bytes == 0)
      return end_transfer(completions_, sides.whole.stream, nullptr, std::move(options));
    if (options.keep_alive != nullptr || options.on_done != nullptr)
      completions_.start_thread(sides.whole.stream);
    const std::vector<StreamRef> streams = sides.streams();
    BERTH_CHECK(streams.front() == sides.whole.stream);  // which the others wait for
    fork(streams);
    Work work;
    try {
      // Host threads may still access pageable memory when the last stream has completed the copy.
      const bool has_pageable =
          is_pageable(sides.whole) || std::ranges::any_of(sides.shards, is_pageable);
      const PartOptions of_part{
          {.keep_alive = has_pageable ? options.keep_alive : nullptr, .priority = options.priority},
          has_pageable};
      submit(of_part, work);
      BERTH_CHECK(bytes_of(work.parts) == sides.bytes_of_shards());  // each shard is filled once
      join(streams, work);
      for (const std::size_t bytes : work.bytes_forwarded) copier_.count_direct(bytes);
      return end_transfer(completions_, sides.whole.stream,
                          std::make_shared<CompositeTransfer>(work.parts), std::move(options));
    } catch (...) {
      wait_for_submitted(streams, work);
      throw;
    }
  }

  /// `streams` begins with the stream of the whole; the others wait for its pending work.
  void fork(std::span<const StreamRef> streams) {
    Marks marks(events_);
    marks.add(streams.front());
    for (const StreamRef shard : streams.subspan(1)) shard.wait(marks.of(streams.front()));
  }

  void join(std::span<const StreamRef> streams, const Work& work) {
    Marks marks(events_);
    for (const StreamRef shard : streams.subspan(1)) marks.add(shard);
    for (const Work::Read& read : work.reads) marks.add(read.by);
    for (const Work::Read& read : work.reads) {
      if (read.of != read.by) read.of.wait(marks.of(read.by));
    }
    for (const StreamRef shard : streams.subspan(1)) streams.front().wait(marks.of(shard));
  }

  /// Waits for the submitted copies, because the caller may free the memory.
  static void wait_for_submitted(std::span<const StreamRef> streams, Work& work) noexcept {
    CompositeTransfer submitted(std::move(work.parts));
    submitted.cancel();
    submitted.wait();
    for (const StreamRef stream : streams) wait_after_failure(stream);
  }

  const DeviceRegistry& registry_;
  const OwnHostMemory own_;
  Copier& copier_;
  CompletionQueue& completions_;
  const EventPools events_;
  const std::size_t piece_bytes_;
  BroadcastCopies broadcasts_;
};

Collectives::Collectives(const DeviceRegistry& registry, PinnedAllocator& pinned,
                         HostAllocator& host, Copier& copier, CompletionQueue& completions,
                         EventPools events, std::size_t piece_bytes)
    : impl_(std::make_unique<Impl>(registry, OwnHostMemory{pinned, host}, copier, completions,
                                   events, piece_bytes)) {}

Collectives::~Collectives() = default;

Transfer Collectives::scatter(const void* source, std::size_t bytes, StreamRef source_stream,
                              std::span<const Shard> targets, TransferOptions options) {
  return impl_->divide(Collective::scatter, const_cast<void*>(source), bytes, source_stream,
                       targets, std::move(options));
}

Transfer Collectives::gather(void* target, std::size_t bytes, StreamRef target_stream,
                             std::span<const Shard> sources, TransferOptions options) {
  return impl_->divide(Collective::gather, target, bytes, target_stream, sources,
                       std::move(options));
}

Transfer Collectives::broadcast(const void* source, std::size_t bytes, StreamRef source_stream,
                                std::span<const Shard> targets, TransferOptions options) {
  return impl_->broadcast(const_cast<void*>(source), bytes, source_stream, targets,
                          std::move(options));
}

}  // namespace berth
