// SPDX-License-Identifier: Apache-2.0
// Callbacks on the host after work on a stream.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

/// A queue of callbacks that run when work on streams is done, on one thread, which the first
/// callback starts. Unlike CUDA's host functions, callbacks may call CUDA and berth, and are
/// notified of a device error.
///
/// Bounds    None. Each outstanding callback holds an event and the state of its function.
/// Blocking  Callbacks run one at a time. A callback that takes long delays all others, and no
///           stream.
/// Threads   Safe from any thread, including callbacks. NotSupported in a forked child, which has
///           no such thread.
class BERTH_API CompletionQueue {
 public:
  /// `failure` is null if all previous work is done, and otherwise the Error. An exception that the
  /// callback throws goes to the report sink. The callback is destroyed after its call, on berth's
  /// thread.
  using Callback = std::function<void(std::exception_ptr failure)>;
  /// Returns the event pool of a device.
  using EventPools = std::function<EventPool&(DeviceContext& context)>;

  /// Makes no driver call and starts no thread.
  explicit CompletionQueue(EventPools events);
  /// Calls finish().
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Calls `callback` once, after the work that `stream` holds now is done or has failed with its
  /// device. The callback may run before this call returns.
  ///
  /// Stream  Callbacks of one stream run in the order of submission, and callbacks of different
  ///         streams in any order. `stream` may be destroyed meanwhile. Later work on `stream`
  ///         waits for a short notification of berth's thread, and not for the callback.
  /// Errors  StreamCaptured: StreamRef::is_capturing(). InvalidArgument: an empty callback, a
  ///         stream of another Runtime, or a call after finish(). Exhausted: the system starts no
  ///         more threads. DriverError. The callback is not called then.
  void when_done(StreamRef stream, Callback callback);

  /// Starts the thread of callbacks, which the first when_done() does otherwise. `stream`: any
  /// stream of the Runtime.
  /// Errors  Exhausted: the system starts no more threads. InvalidArgument: after finish(), and for
  ///         a stream of another Runtime.
  void start_thread(StreamRef stream);

  /// Number of submitted callbacks that have not started. 0 in a forked child.
  [[nodiscard]] std::size_t outstanding() const;

  /// Waits for the work of all outstanding callbacks, runs them, and ends the thread. Runtime's
  /// destructor calls it before it destroys anything else, so callbacks may use all of the Runtime.
  /// Further calls have no effect.
  /// Threads  Not from a callback: such a call stops the process.
  void finish() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace berth
