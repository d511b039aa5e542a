// SPDX-License-Identifier: Apache-2.0
// Streams for hire: created lazily, kept for the life of the Runtime, leased with a lifetime.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/export.h"
#include "berth/lease.hpp"
#include "berth/stream.hpp"

namespace berth {

struct StreamPoolOptions {
  /// Streams of one priority that exist at most, 1 or more. More than 128 cannot run at once on any
  /// current GPU (CUDA C++ Programming Guide, "Compute Capabilities": resident grids per device).
  std::size_t streams_max = 128;
};

/// The streams of one device. No two live leases of one priority share a stream until streams_max
/// of them are out; from then on the stream with the fewest leases is shared.
///
/// Blocking  Acquiring makes no driver call but for a stream's first creation; giving back, none.
/// Threads   Safe from any thread.
class BERTH_API StreamPool {
 public:
  using Ref = StreamRef;

  StreamPool(DeviceContext& context, StreamPoolOptions options);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  /// `priority` as in StreamOptions. Prefers the stream that came back last.
  /// Errors  InvalidArgument: priority above 0. DriverError: the driver cannot create a stream.
  Lease<StreamPool> acquire(int priority = 0);
  /// What Lease calls. `stream` must be on lease from this pool.
  void give_back(StreamRef stream) noexcept;

  [[nodiscard]] std::size_t streams_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using StreamLease = Lease<StreamPool>;

}  // namespace berth
