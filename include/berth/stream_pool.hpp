// SPDX-License-Identifier: Apache-2.0
// Pooled streams: created when first needed, kept for the life of the Runtime, and leased.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "berth/export.h"
#include "berth/lease.hpp"
#include "berth/stream.hpp"

namespace berth {

/// The behavior of acquire() if streams_max streams of a priority are on lease.
enum class StreamShortage : std::uint8_t {
  share,  ///< leases the stream with the fewest leases once more: its users share one order
  wait,   ///< waits until a stream is returned; any of several waiting threads may get it
  fail,   ///< throws Exhausted
};

namespace detail {
/// The pool's record of one stream.
struct PooledStream {
  StreamRef ref;
  const int priority;  ///< in the device's range
  std::atomic<std::uint32_t> leases;
  PooledStream* below;  ///< next in the list of idle streams
};
}  // namespace detail

/// Options of a StreamPool.
struct StreamPoolOptions {
  /// Maximum number of streams of one priority, 1 or more; streams that captures still hold are not
  /// counted. More than 128 cannot run concurrently on any current GPU (CUDA C++ Programming Guide,
  /// "Compute Capabilities": resident grids per device).
  std::size_t streams_max = 128;
  StreamShortage on_shortage = StreamShortage::share;
};

/// A pool of the streams of one device. No two live leases of one priority share a stream until
/// streams_max of them are on lease; beyond that StreamPoolOptions::on_shortage applies.
///
/// A thread keeps a few streams that it returned, and acquires those first, without a lock. If no
/// other streams are available, streams kept by other threads are taken.
///
/// Captures  A side stream of a ForkJoin within a capture stays captured until the capture ends,
///           and is not leased until then. Return a stream that StreamRef::wait() drew into a
///           capture only after the capture has ended.
/// Blocking  Acquiring makes driver calls only to create a stream, and to query whether captures
///           with such streams have ended. It waits for other threads only with
///           StreamShortage::wait. Returning does neither.
/// Threads   Safe from any thread.
/// Fork      In a child made by fork(), acquiring and counting throw NotSupported, and returning
///           has no effect.
class BERTH_API StreamPool {
 public:
  using Ref = StreamRef;

  /// Errors  InvalidArgument: an option out of range.
  StreamPool(DeviceContext& context, StreamPoolOptions options);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  /// Leases a stream. `priority` is as in StreamOptions. Prefers the stream that the calling thread
  /// returned last.
  /// Errors  InvalidArgument: priority above 0. Exhausted: StreamShortage::fail. DriverError: the
  ///         driver cannot create a stream.
  Lease<StreamPool> acquire(int priority = 0);
  /// Returns a stream that Lease::release() detached.
  /// Errors  InvalidArgument: not on lease from this pool.
  void give_back(StreamRef stream);

  /// Number of streams that exist, and of leases.
  [[nodiscard]] std::size_t streams_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  friend class ForkJoin;
  friend class Lease<StreamPool>;
  using Item = detail::PooledStream;

  struct State;
  void give_back(Item& item) noexcept;
  /// Returns a stream that may still be captured.
  void set_aside(StreamRef stream) noexcept;

  std::unique_ptr<State> state_;
};

using StreamLease = Lease<StreamPool>;

}  // namespace berth
