// SPDX-License-Identifier: Apache-2.0
// Scatter, gather and broadcast of a buffer over devices, in one process: what data parallelism does to
// each batch.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "berth/copier.hpp"
#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

namespace berth {

class CompletionQueue;
class DeviceRegistry;
class PinnedAllocator;

/// One part of a collective copy: memory, and the stream in whose order it is written or read. The copy
/// into it, or out of it, runs on that stream. Device memory takes a stream of its device; host memory one
/// of the device on the other side, and nothing where that is the host's, too.
struct Shard {
  void* data;         ///< a gather reads it only; may be null where `bytes` is 0
  std::size_t bytes;  ///< 0: there is no such part, as where a batch has fewer rows than devices
  StreamRef stream;
};

/// Copies between one buffer, the whole, and shards on several devices. Each range lies in one
/// allocation, as for Copier, which makes the copies; no two ranges overlap, but those that a gather
/// reads.
///
/// Stream    A call begins after what the whole's stream and the streams of the shards hold. What is
///           submitted to the whole's stream later finds all of it done; what is submitted to the
///           stream of a shard finds done all that uses that shard. By events on the devices: no host
///           thread waits. The whole's stream is one of its device where it is device memory, and
///           that of any device otherwise.
/// Memory    Stays valid, and sources as they are, until the Transfer is over, or in the order of the
///           streams named above: a pageable source as for Copier::start(). TransferOptions::keep_alive
///           is for owners.
/// Transfer  Of the whole call: over when all parts are; bytes() counts each byte as often as it is
///           written; failure() is that of the first part, in the order of the shards' copies, that has one;
///           cancel() cancels what Transfer::cancel() can, and wait() throws Cancelled.
///           TransferOptions::on_done comes in the order of the whole's stream.
/// Blocking  As Copier::start(): never on a device, where no pageable memory is named.
/// Peers     Devices that can access each other's memory are made to, by the first call that copies
///           between them (cuCtxEnablePeerAccess), and copy directly then. Between others the driver
///           copies through host memory.
/// Captures  Refused: the parts of a graph on several devices are for its maker to lay out.
/// Errors    InvalidArgument: no shards, null, ranges that wrap around or overlap, bytes that do not
///           add up, a stream that is not of the memory's device, memory of the host on both sides,
///           managed memory, which is of no device alone.
///           StreamCaptured: a stream is captured, and the capture goes on. NotSupported: in a
///           forked child. Nothing is submitted then. OutOfMemory: StagingShortage::grow. DriverError:
///           what was submitted is over when it is thrown, nothing is written any more, and the
///           targets' content is undefined; the next call works, unless a device is gone.
/// Threads   Safe from any thread, except from inside a CUDA host callback.
class BERTH_API Collectives {
 public:
  /// The events of a device.
  using EventPools = std::function<EventPool&(DeviceContext& context)>;

  /// `piece_bytes`: CopierOptions::direct_piece_bytes.
  Collectives(const DeviceRegistry& registry, PinnedAllocator& pinned, Copier& copier,
              CompletionQueue& completions, EventPools events, std::size_t piece_bytes);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// Consecutive ranges of the source go to the targets, in their order. `bytes` is the source's size,
  /// and the sum of theirs.
  Transfer scatter(const void* source, std::size_t bytes, StreamRef source_stream,
                   std::span<const Shard> targets, TransferOptions options = {});
  Transfer scatter(const void* source, std::size_t bytes, StreamRef source_stream,
                   std::initializer_list<Shard> targets, TransferOptions options = {}) {
    return scatter(source, bytes, source_stream, std::span(targets.begin(), targets.size()),
                   std::move(options));
  }

  /// The other way: the sources go to consecutive ranges of the target.
  Transfer gather(void* target, std::size_t bytes, StreamRef target_stream,
                  std::span<const Shard> sources, TransferOptions options = {});
  Transfer gather(void* target, std::size_t bytes, StreamRef target_stream,
                  std::initializer_list<Shard> sources, TransferOptions options = {}) {
    return gather(target, bytes, target_stream, std::span(sources.begin(), sources.size()),
                  std::move(options));
  }

  /// All of the source goes to each target, which has `bytes` each.
  ///
  /// From a device: the devices form a chain, each next to one that it reaches well, and each takes
  /// from the one before it, piece by piece, as soon as that one has a piece. So N devices take about
  /// as long as one, where the source's own engine would take N times that. From the host: devices that
  /// all reach each other share the work, each fetches a part over its own link, and the parts go round;
  /// all others fetch everything. What is no larger than a piece goes to each directly.
  Transfer broadcast(const void* source, std::size_t bytes, StreamRef source_stream,
                     std::span<const Shard> targets, TransferOptions options = {});
  Transfer broadcast(const void* source, std::size_t bytes, StreamRef source_stream,
                     std::initializer_list<Shard> targets, TransferOptions options = {}) {
    return broadcast(source, bytes, source_stream, std::span(targets.begin(), targets.size()),
                     std::move(options));
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
