// SPDX-License-Identifier: Apache-2.0
// Events: points in a stream's work that the host and other streams can wait for.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/export.h"

struct CUevent_st;

namespace berth {

class DeviceContext;
class StreamRef;

/// The name of an event in other processes of the machine: plain bytes, to be sent unchanged.
struct IpcEventHandle {
  std::array<std::byte, 64> bytes{};
};

/// Refers to a CUDA event; owns nothing. Valid as long as the event.
/// Threads  Safe from any thread, as the driver's events are.
class BERTH_API EventRef {
 public:
  EventRef(DeviceContext& context, CUevent_st* native) noexcept
      : context_(&context), native_(native) {}

  [[nodiscard]] Device device() const noexcept;
  [[nodiscard]] CUevent_st* native() const noexcept { return native_; }
  [[nodiscard]] DeviceContext& context() const noexcept { return *context_; }

  /// Marks the end of the work submitted to `stream` so far. Recording again moves the mark;
  /// earlier waits keep the old one. On a captured stream it marks captured work, which streams may
  /// wait for and the host may not. Makes a capture query (cuStreamIsCapturing), which is one more
  /// driver call.
  /// Errors  InvalidArgument: a stream of another device. StreamCaptured: the legacy default
  ///         stream, while a stream that waits for it is captured. DriverError. The mark is
  ///         unchanged then.
  void record(StreamRef stream) const;

  // is_done() and sync() check for captured work without a driver call: berth remembers the events
  // that it recorded on captured streams, until they are recorded again or their owner destroys
  // them. An event that other code recorded on a captured stream is unknown, and breaks the
  // capture.

  /// Whether all marked work is done; true for an event that was never recorded. Does not block.
  /// Errors  StreamCaptured: the event marks captured work. DriverError, also for a failure of
  ///         earlier work.
  [[nodiscard]] bool is_done() const;
  /// Blocks the calling thread until the marked work is done.
  /// Errors  As is_done().
  void sync() const;

  /// Returns the handle for Event::open() in another process.
  /// Errors  InvalidArgument: the event was created without EventOptions::interprocess.
  ///         NotSupported: the driver has no such events. DriverError.
  [[nodiscard]] IpcEventHandle ipc_handle() const;

  friend bool operator==(const EventRef& a, const EventRef& b) noexcept {
    return a.native_ == b.native_;
  }

 private:
  friend class Event;
  /// The reference of an empty Event.
  explicit EventRef(std::nullptr_t) noexcept : context_(nullptr), native_(nullptr) {}

  DeviceContext* context_;
  CUevent_st* native_;
};

/// Milliseconds between two recorded events that were created with timing.
/// Errors  InvalidArgument: an event that was never recorded, or was created without timing.
///         DriverError: an event that is not done. StreamCaptured: one that marks captured work.
[[nodiscard]] BERTH_API float elapsed_ms(EventRef start, EventRef end);

/// Options of an event.
struct EventOptions {
  bool timing = false;  ///< events without timing cost less to record and to wait for
  /// The event can be opened in other processes. InvalidArgument together with timing, and for an
  /// EventPool.
  bool interprocess = false;
};

/// Owns a CUDA event. Movable. Empty if default-constructed, moved from or released: it then owns
/// nothing. Destruction destroys the event.
/// Threads  One thread at a time; the event itself is safe from any thread.
class BERTH_API Event {
 public:
  /// Empty.
  Event() noexcept : ref_(nullptr) {}
  /// Creates an event.
  /// Errors  InvalidArgument: both options together. DriverError.
  Event(DeviceContext& context, EventOptions options);
  /// Opens an event of another process. It can be recorded, waited for and queried like any other;
  /// a record in either process sets the mark for both. The exporting process must not destroy the
  /// event while this object exists. Source: CUDA Driver API, cuIpcOpenEventHandle.
  /// Errors  NotSupported: as EventRef::ipc_handle(). DriverError: the handle does not belong to an
  ///         event of the same device in another live process.
  static Event open(DeviceContext& context, const IpcEventHandle& handle);
  /// Takes ownership of an existing event.
  /// Errors  InvalidArgument: the event belongs to an EventPool. Nothing is changed then.
  static Event adopt(EventRef event);
  ~Event();
  Event(Event&& other) noexcept : ref_(std::exchange(other.ref_, EventRef(nullptr))) {}
  Event& operator=(Event&& other) noexcept;

  /// Whether it owns an event.
  explicit operator bool() const noexcept { return ref_.native() != nullptr; }
  /// Gives up ownership and returns the event, which the caller must destroy; null if empty.
  CUevent_st* release() noexcept { return std::exchange(ref_, EventRef(nullptr)).native(); }
  /// Errors  InvalidArgument: empty; also of the conversion.
  [[nodiscard]] EventRef ref() const {
    if (ref_.native() == nullptr) detail::refuse_empty("event");
    return ref_;
  }
  operator EventRef() const { return ref(); }  // NOLINT: an owner serves as a reference

 private:
  explicit Event(EventRef event) noexcept : ref_(event) {}
  EventRef ref_;
};

}  // namespace berth

template <>
struct std::hash<berth::EventRef> {
  std::size_t operator()(const berth::EventRef& event) const noexcept {
    return std::hash<const void*>()(event.native());
  }
};
