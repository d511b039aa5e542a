// SPDX-License-Identifier: Apache-2.0
// Events: points in a stream's work that hosts and other streams can wait for.
#pragma once

#include <array>
#include <cstddef>

#include "berth/device.hpp"
#include "berth/export.h"

struct CUevent_st;

namespace berth {

class DeviceContext;
class StreamRef;

/// An event's name in other processes of the machine: plain bytes, to be sent as they are.
struct IpcEventHandle {
  std::array<std::byte, 64> bytes{};
};

/// Refers to a CUDA event; owns nothing. Valid as long as the event is.
/// Threads  Safe from any thread, as the driver's events are.
class BERTH_API EventRef {
 public:
  EventRef(DeviceContext& context, CUevent_st* native) noexcept
      : context_(&context), native_(native) {}

  [[nodiscard]] Device device() const noexcept;
  [[nodiscard]] CUevent_st* native() const noexcept { return native_; }
  [[nodiscard]] DeviceContext& context() const noexcept { return *context_; }

  /// Marks the end of the work submitted to `stream` so far. Recording again moves the mark; waits
  /// made before keep the old one. On a captured stream it marks captured work, which streams may
  /// wait for and the host may not. Asks cuStreamIsCapturing, which is one more driver call.
  /// Errors  InvalidArgument: a stream of another device. StreamCaptured: the legacy default stream,
  ///         while a stream that waits for it is captured.
  void record(StreamRef stream) const;

  // The two below make no driver call more for being refused: berth remembers which events it has
  // recorded on captured streams, until they are recorded again or their owner destroys them. An
  // event that something else recorded there is not known, and breaks the capture.

  /// Whether all marked work is done; true for an event that was never recorded. Never waits.
  /// Errors  StreamCaptured: it marks captured work.
  [[nodiscard]] bool is_done() const;
  /// Blocks the calling thread until the marked work is done.
  /// Errors  StreamCaptured: it marks captured work.
  void sync() const;

  /// For Event::open() in another process.
  /// Errors  InvalidArgument: made without EventOptions::interprocess. NotSupported: the driver has no
  ///         such events, as the simulated one. DriverError.
  [[nodiscard]] IpcEventHandle ipc_handle() const;

  friend bool operator==(const EventRef& a, const EventRef& b) noexcept {
    return a.native_ == b.native_;
  }

 private:
  DeviceContext* context_;
  CUevent_st* native_;
};

/// Milliseconds between two recorded events made with timing.
/// Errors  DriverError: an event that was never recorded, is not done, or was made without timing.
///         StreamCaptured: one that marks captured work.
[[nodiscard]] BERTH_API float elapsed_ms(EventRef start, EventRef end);

struct EventOptions {
  bool timing = false;  ///< events without timing cost less to record and to wait for
  /// May be opened in other processes. Without timing, and not of an EventPool: InvalidArgument.
  bool interprocess = false;
};

/// Owns a CUDA event. Moves; an empty Event (moved from or released) owns nothing.
class BERTH_API Event {
 public:
  Event(DeviceContext& context, EventOptions options);
  /// An event of another process: record, wait for it and ask it as one's own. What either process
  /// records is the mark for both. The exporter must not destroy it while this exists.
  /// Source: CUDA Driver API, cuIpcOpenEventHandle.
  /// Errors  NotSupported: as EventRef::ipc_handle(). DriverError: a handle that names no event of
  ///         another process that is alive, and of the same device.
  static Event open(DeviceContext& context, const IpcEventHandle& handle);
  /// Takes ownership of an event that something else made.
  /// Errors  InvalidArgument: it belongs to an EventPool.
  static Event adopt(EventRef event);
  ~Event();
  Event(Event&& other) noexcept : ref_(other.ref_.context(), other.release()) {}
  Event& operator=(Event&& other) noexcept;

  /// The event, which the caller owns from now on.
  CUevent_st* release() noexcept;
  [[nodiscard]] EventRef ref() const noexcept { return ref_; }
  operator EventRef() const noexcept { return ref_; }  // NOLINT: an owner serves as a reference

 private:
  explicit Event(EventRef event) noexcept : ref_(event) {}
  EventRef ref_;
};

}  // namespace berth
