// SPDX-License-Identifier: Apache-2.0
// Scatter, gather and broadcast of a buffer over several devices in one process, as data
// parallelism needs them for each batch.
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

/// One part of a collective copy: memory, and the stream that orders its use. The copy into or out
/// of the memory runs on that stream. Device memory needs a stream of its device, host memory one
/// of the device on the other side.
struct Shard {
  void* data;         ///< only read by a gather; may be null if `bytes` is 0
  std::size_t bytes;  ///< 0: this part is empty, for example if a batch has fewer rows than devices
  StreamRef stream;
};

/// Copies between one buffer, the whole, and shards on several devices. Each range must lie in one
/// allocation, as for Copier, which makes the copies. Ranges must not overlap, except for the
/// sources of a gather.
///
/// Stream    A call starts after the work that the whole's stream and the shards' streams hold.
///           Work submitted to the whole's stream later runs after the complete call. Work
///           submitted to a shard's stream later runs after all uses of that shard. All order is by
///           events on the devices; no host thread waits. If the whole is device memory, its stream
///           must be one of its device, and otherwise it may be one of any device.
/// Memory    Must stay valid, and sources unchanged, until the Transfer is over, or in the order of
///           the streams above; a pageable source as for Copier::start().
///           TransferOptions::keep_alive holds the owners of the whole and of all shards.
/// Transfer  Represents the whole call. It is over when all parts are. bytes() counts each byte as
///           often as it is written. failure() is the first failure, in the order of the shards'
///           copies. cancel() cancels the parts that Transfer::cancel() can cancel, and wait() then
///           throws Cancelled. TransferOptions::on_done is called in the order of the whole's
///           stream.
/// Blocking  As Copier::start(): never waits for a device if no pageable memory is involved.
/// Peers     The first call that copies between two devices enables peer access between them, if
///           they support it (cuCtxEnablePeerAccess). They then copy directly. Between other
///           devices the driver copies through host memory.
/// Captures  Refused: the author of a graph lays out its parts on several devices.
/// Errors    InvalidArgument: no shards, null, ranges that wrap around or overlap, sizes that do
///           not add up, a stream of another device than the memory, host memory on both sides, or
///           managed memory, which belongs to no single device. StreamCaptured: a stream is
///           captured; the capture continues. NotSupported: in a forked child. In these cases
///           nothing is submitted. OutOfMemory: StagingShortage::grow. Exhausted: all events of a
///           pool are in use (EventPoolOptions), or the system starts no thread for callbacks.
///           DriverError. Submitted work is over when one of these is thrown, nothing more is
///           written, the content of the targets is undefined, and keep_alive has been released.
///           The next call works, unless a device has failed.
/// Threads   Safe from any thread, except from inside a CUDA host callback.
class BERTH_API Collectives {
 public:
  /// Returns the event pool of a device.
  using EventPools = std::function<EventPool&(DeviceContext& context)>;

  /// `piece_bytes`: CopierOptions::direct_piece_bytes.
  Collectives(const DeviceRegistry& registry, PinnedAllocator& pinned, HostAllocator& host,
              Copier& copier, CompletionQueue& completions, EventPools events,
              std::size_t piece_bytes);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// Copies consecutive ranges of the source to the targets, in their order. `bytes` is the size of
  /// the source and the sum of the target sizes.
  Transfer scatter(const void* source, std::size_t bytes, StreamRef source_stream,
                   std::span<const Shard> targets, TransferOptions options = {});
  Transfer scatter(const void* source, std::size_t bytes, StreamRef source_stream,
                   std::initializer_list<Shard> targets, TransferOptions options = {}) {
    return scatter(source, bytes, source_stream, std::span(targets.begin(), targets.size()),
                   std::move(options));
  }

  /// Copies the sources to consecutive ranges of the target: the reverse of scatter().
  Transfer gather(void* target, std::size_t bytes, StreamRef target_stream,
                  std::span<const Shard> sources, TransferOptions options = {});
  Transfer gather(void* target, std::size_t bytes, StreamRef target_stream,
                  std::initializer_list<Shard> sources, TransferOptions options = {}) {
    return gather(target, bytes, target_stream, std::span(sources.begin(), sources.size()),
                  std::move(options));
  }

  /// Copies the whole source to each target. `bytes` is the size of the source and of each target.
  ///
  /// From a device, the devices form a chain, each next to one with a good path to it. Each fetches
  /// from the previous one, piece by piece, as soon as a piece has arrived there. So N devices take
  /// about as long as one; copies by the source's own engine would take N times that. From the
  /// host, devices that all reach each other share the work: each fetches a part over its own link,
  /// and the parts are passed around. Other devices fetch everything. A source no larger than one
  /// piece is copied to each target directly.
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
