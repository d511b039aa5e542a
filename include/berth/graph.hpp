// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: work that is captured once and replayed many times.
#pragma once

#include <cstdint>

#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"

struct CUgraphExec_st;

namespace berth {

class DeviceContext;

/// Owns an executable CUDA graph: the work of a GraphCapture, at the addresses that were captured.
/// Movable. Empty if default-constructed or moved from. Must not outlive its Runtime, whose end
/// reports live graphs.
///
/// Memory   Each replay reads and writes the captured addresses again. A pool for graphs
///          (MemoryPoolOptions::for_graphs) keeps the device memory that was allocated on the
///          captured stream within its PoolScope, also if it was freed since: close the pool after
///          the last replay is done. The graph keeps the pinned blocks that captured copies of
///          berth's use: they may be freed at any time, and are reused when the graph is gone. All
///          other memory must stay valid until the last replay is done.
/// Threads  One thread at a time.
class BERTH_API Graph {
 public:
  /// Empty.
  Graph() noexcept = default;
  /// Replays that have been submitted complete. Does not wait for them.
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Whether it owns a graph.
  explicit operator bool() const noexcept { return native_ != nullptr; }
  /// The device of the captured stream.
  /// Errors  InvalidArgument: empty.
  [[nodiscard]] Device device() const;
  /// For the driver's own calls; null if empty.
  [[nodiscard]] CUgraphExec_st* native() const noexcept { return native_; }

  /// Submits the work to `stream` once more. It begins when the earlier work of the stream and the
  /// earlier replays of this graph are done. The host does not wait.
  /// Errors  InvalidArgument: empty, or a stream of another device. StreamCaptured: the stream is
  ///         captured; that capture continues. DriverError.
  void replay(StreamRef stream) const;

 private:
  friend class GraphCapture;
  Graph(DeviceContext& context, CUgraphExec_st* native) noexcept
      : context_(&context), native_(native) {}

  DeviceContext* context_ = nullptr;
  CUgraphExec_st* native_ = nullptr;
};

/// Captures the work that is submitted to a stream, until end() or until this object is destroyed.
/// The work does not run. Streams that wait for an event of the captured stream are captured with
/// it, until the stream waits for an event of theirs, which must happen before end().
///
/// Memory for the captured work comes from a pool for graphs (Graph), and calls that would wait for
/// the captured work are refused with StreamCaptured. The capture has the mode
/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: a call of this thread that a capture does not permit is
/// refused by the driver and makes the capture invalid; other threads are not affected. Source:
/// CUDA Driver API, cuStreamBeginCapture.
///
/// Threads  On the thread that created it.
class BERTH_API GraphCapture {
 public:
  /// Errors  InvalidArgument: a default stream. StreamCaptured: the stream is captured already;
  ///         that capture continues. NotSupported: the driver has no graphs. DriverError.
  explicit GraphCapture(StreamRef stream);
  /// Ends the capture, and drops its work, unless end() has returned.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /// Ends the capture, and makes its work a graph, which may be empty.
  /// Errors  InvalidArgument: the capture has ended, or another thread began it; nothing is
  ///         changed. DriverError: the capture is invalid, a captured stream was not waited for, or
  ///         the driver cannot instantiate the graph. The capture has ended then, without a graph.
  [[nodiscard]] Graph end();

 private:
  const StreamRef stream_;
  const std::uint64_t thread_;  ///< unlike a std::thread::id, never that of a later thread
  bool is_open_ = true;
};

}  // namespace berth
