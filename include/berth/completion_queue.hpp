// SPDX-License-Identifier: Apache-2.0
// Callbacks that run on the host when work on a stream is done.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

/// Runs callbacks on one thread, which the first of them starts. Unlike CUDA's host functions they may
/// call CUDA and berth, and a device error reaches them.
///
/// Bounds    None: each callback that is outstanding keeps a pooled event, and what it captured.
/// Blocking  One callback at a time: one that takes long holds up all others, and no stream.
/// Threads   Safe from any thread, callbacks included. A forked child has no such thread: NotSupported.
class BERTH_API CompletionQueue {
 public:
  /// Gets null where all work before is done, and otherwise what went wrong, an Error. What it throws
  /// goes to the report sink. It is destroyed after its call, on berth's thread.
  using Callback = std::function<void(std::exception_ptr failure)>;
  /// The events of a device.
  using EventPools = std::function<EventPool&(DeviceContext& context)>;

  /// Calls no driver, and starts no thread.
  explicit CompletionQueue(EventPools events);
  /// finish()
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Calls `callback` once, after the work that `stream` holds now is done, or has failed with its
  /// device. It may be called before this returns.
  ///
  /// Stream   Callbacks of one stream come in the order in which they were submitted; those of
  ///          different streams in any. `stream` may be destroyed meanwhile. Its later work waits for
  ///          a notice to berth's thread, which is short, and not for the callback.
  /// Errors   StreamCaptured: StreamRef::is_capturing(). InvalidArgument: an empty callback, or after
  ///          finish(). DriverError. The callback is not called then.
  void when_done(StreamRef stream, Callback callback);

  /// Callbacks that have been submitted, and not begun. 0 in a forked child.
  [[nodiscard]] std::size_t outstanding() const;

  /// Waits for the work of all that is outstanding, calls it, and ends the thread. Runtime's
  /// destructor calls it before anything else goes, so callbacks may use all of the Runtime until the
  /// last. Calls after the first do nothing.
  /// Threads  Not from a callback: the process is stopped.
  void finish() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth
