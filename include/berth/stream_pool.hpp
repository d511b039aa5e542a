// SPDX-License-Identifier: Apache-2.0
// Streams for hire: created lazily, kept for the life of the Runtime, leased with a lifetime.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "berth/export.h"
#include "berth/lease.hpp"
#include "berth/stream.hpp"

namespace berth {

/// What acquire() does where streams_max streams of a priority are on lease.
enum class StreamShortage : std::uint8_t {
  share,  ///< leases the stream with the fewest leases once more: its users' work is in one order
  wait,   ///< waits until one comes back; of threads that wait, any may be the next
  fail,   ///< throws Exhausted
};

struct StreamPoolOptions {
  /// Streams of one priority that exist at most, 1 or more; those that captures still have come on
  /// top. More than 128 cannot run at once on any
  /// current GPU (CUDA C++ Programming Guide, "Compute Capabilities": resident grids per device).
  std::size_t streams_max = 128;
  StreamShortage on_shortage = StreamShortage::share;
};

/// The streams of one device. No two live leases of one priority share a stream until streams_max
/// of them are out; from then on StreamPoolOptions::on_shortage says what happens.
///
/// A thread keeps a few streams that it gave back, and takes those first, without a lock. Where there
/// are no more to be had, those that other threads keep are taken.
///
/// Captures  A side stream of a ForkJoin within a capture stays captured until the capture ends, and
///           is leased to nobody until then. A stream that StreamRef::wait() drew into a capture is to
///           be given back after its end.
/// Blocking  Acquiring makes no driver call but for a stream's first creation, and to ask whether
///           captures that have such streams have ended; it waits for other threads only where
///           StreamShortage::wait says so. Giving back does neither.
/// Threads   Safe from any thread.
/// Fork      In a child made by fork() acquiring and counting fail with NotSupported; giving back does
///           nothing.
class BERTH_API StreamPool {
 public:
  using Ref = StreamRef;
  /// What a Lease holds.
  struct Item {
    StreamRef ref;
    const int priority;  ///< in the device's range
    std::atomic<std::uint32_t> leases;
    Item* below;  ///< among those that are idle
  };

  /// Errors  InvalidArgument: an option out of range.
  StreamPool(DeviceContext& context, StreamPoolOptions options);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  /// `priority` as in StreamOptions. Prefers the stream that the calling thread gave back last.
  /// Errors  InvalidArgument: priority above 0. Exhausted: StreamShortage::fail. DriverError: the
  ///         driver cannot create a stream.
  Lease<StreamPool> acquire(int priority = 0);
  /// What Lease calls.
  void give_back(Item& item) noexcept;
  /// For what came from Lease::release().
  /// Errors  InvalidArgument: not on lease from this pool.
  void give_back(StreamRef stream);

  [[nodiscard]] std::size_t streams_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  friend class ForkJoin;

  struct State;
  /// Gives back what is perhaps captured.
  void set_aside(StreamRef stream) noexcept;

  std::unique_ptr<State> state_;
};

using StreamLease = Lease<StreamPool>;

}  // namespace berth
