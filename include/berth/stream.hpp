// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work on one device, executed in order.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "berth/device.hpp"
#include "berth/error.hpp"
#include "berth/event.hpp"
#include "berth/export.h"

struct CUstream_st;

namespace berth {

class DeviceContext;

/// Refers to a CUDA stream; owns nothing. Valid as long as the stream. Two pointers: pass by value.
/// Runtime::stream() makes one from a framework's own stream.
/// Threads  Safe from any thread, as the driver's streams are.
class BERTH_API StreamRef {
 public:
  StreamRef(DeviceContext& context, CUstream_st* native) noexcept
      : context_(&context), native_(native) {}

  // The default streams, by CUDA's names. The per-thread default stream is a different stream on
  // each thread under one handle. Uses within one call of the calling thread are supported: order,
  // events, callbacks, copies, and making it current. Uses that outlast a call are refused: memory,
  // pool scopes, and therefore copies of berth's pinned blocks.
  static StreamRef legacy_default(DeviceContext& context) noexcept { return {context, nullptr}; }
  static StreamRef per_thread_default(DeviceContext& context) noexcept;

  [[nodiscard]] Device device() const noexcept;
  /// As passed in: the legacy default stream is null, or CUDA's CU_STREAM_LEGACY.
  [[nodiscard]] CUstream_st* native() const noexcept { return native_; }
  [[nodiscard]] DeviceContext& context() const noexcept { return *context_; }

  /// Under either of its handles.
  [[nodiscard]] bool is_legacy_default() const noexcept;
  [[nodiscard]] bool is_per_thread_default() const noexcept;

  // Calls that would break a capture are refused with StreamCaptured before the driver is called.
  // is_done() and sync() first call cuStreamIsCapturing, which is one more driver call; wait()
  // calls it only for the legacy default stream. A capture in the mode `global` also forbids
  // queries of streams outside the capture, which no query detects: use RelaxedCaptureScope.

  /// Makes work submitted to this stream from now on wait for `event`'s mark. The host does not
  /// wait. The event may be of another device. An event that was never recorded causes no wait. An
  /// event that marks captured work draws this stream into the capture. A captured stream must not
  /// wait for any other event, or the driver breaks the capture.
  /// Errors  StreamCaptured: the legacy default stream, while a stream that waits for it is
  ///         captured or if the event marks captured work. DriverError.
  void wait(EventRef event) const;
  /// Whether all work submitted so far is done. Does not block.
  /// Errors  StreamCaptured: is_capturing(). DriverError, also for a failure of earlier work.
  [[nodiscard]] bool is_done() const;
  /// Blocks the calling thread until all work submitted so far is done.
  /// Errors  StreamCaptured: is_capturing(). DriverError, also for a failure of earlier work.
  void sync() const;
  /// Whether submitted work becomes part of a graph instead of running. Also true for the legacy
  /// default stream while a stream that waits for it is captured, because it cannot be used then.
  /// True for a capture that has become invalid, until it is ended. One driver call, which breaks
  /// no capture.
  /// Errors  DriverError.
  [[nodiscard]] bool is_capturing() const;

  friend bool operator==(const StreamRef& a, const StreamRef& b) noexcept {
    return a.context_ == b.context_ &&
           (a.native_ == b.native_ || (a.is_legacy_default() && b.is_legacy_default()));
  }

 private:
  friend class Allocation;
  friend class Stream;
  /// The reference of an empty Stream.
  explicit StreamRef(std::nullptr_t) noexcept : context_(nullptr), native_(nullptr) {}

  DeviceContext* context_;
  CUstream_st* native_;
};

/// Options of a stream.
struct StreamOptions {
  /// Lower values run first. 0 is the default and the lowest priority. Values below the device's
  /// range are clamped.
  /// Errors  InvalidArgument: above 0.
  int priority = 0;
  /// Whether the legacy default stream and this stream wait for each other. berth's own streams
  /// never do, unless requested.
  bool blocks_with_legacy_default = false;
};

/// Owns a CUDA stream. Movable. Empty if default-constructed, moved from or released: it then owns
/// nothing. A stream with pending work may be destroyed: the work completes. Allocators are
/// notified, so memory cached for the stream is neither lost nor attributed to a later stream with
/// the same handle.
/// Threads  One thread at a time; the stream itself is safe from any thread.
class BERTH_API Stream {
 public:
  /// Empty.
  Stream() noexcept : ref_(nullptr) {}
  /// Creates a stream.
  /// Errors  InvalidArgument: an option out of range. DriverError.
  Stream(DeviceContext& context, StreamOptions options);
  /// Takes ownership of an existing stream.
  /// Errors  InvalidArgument: a default stream, or one that belongs to a StreamPool. Nothing is
  ///         changed then.
  static Stream adopt(StreamRef stream);
  ~Stream();
  Stream(Stream&& other) noexcept : ref_(other.take()) {}
  Stream& operator=(Stream&& other) noexcept;

  /// Whether it owns a stream.
  explicit operator bool() const noexcept { return ref_.native() != nullptr; }
  /// Gives up ownership and returns the stream, which the caller must destroy; null if empty.
  CUstream_st* release() noexcept;
  /// Errors  InvalidArgument: empty; also of the conversion.
  [[nodiscard]] StreamRef ref() const {
    if (ref_.native() == nullptr) detail::refuse_empty("stream");
    return ref_;
  }
  operator StreamRef() const { return ref(); }  // NOLINT: an owner serves as a reference

 private:
  explicit Stream(StreamRef stream) noexcept : ref_(stream) {}
  StreamRef take() noexcept { return std::exchange(ref_, StreamRef(nullptr)); }

  StreamRef ref_;
};

}  // namespace berth

/// Equal streams have equal hashes: the two handles of a legacy default stream count as one.
template <>
struct std::hash<berth::StreamRef> {
  std::size_t operator()(const berth::StreamRef& stream) const noexcept {
    const std::hash<const void*> of;
    const std::size_t handle = stream.is_legacy_default() ? 0 : of(stream.native());
    return handle ^ (of(&stream.context()) << 1);
  }
};
