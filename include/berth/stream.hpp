// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work on one device, executed in order.
#pragma once

#include "berth/device.hpp"
#include "berth/event.hpp"
#include "berth/export.h"

struct CUstream_st;

namespace berth {

class DeviceContext;

/// Refers to a CUDA stream; owns nothing. Valid as long as the stream is. Two pointers: pass by
/// value. Runtime::stream() makes one from a framework's own stream.
/// Threads  Safe from any thread, as the driver's streams are.
class BERTH_API StreamRef {
 public:
  StreamRef(DeviceContext& context, CUstream_st* native) noexcept
      : context_(&context), native_(native) {}

  // The default streams, by the names that CUDA gives them. The per-thread one is another stream on
  // each thread under one handle: what is done with it within a call of the calling thread works
  // (order, events, callbacks, copies, its being current); what would have to remember it is refused
  // (memory, its scopes, and with that copies of pinned blocks of berth's).
  static StreamRef legacy_default(DeviceContext& context) noexcept { return {context, nullptr}; }
  static StreamRef per_thread_default(DeviceContext& context) noexcept;

  [[nodiscard]] Device device() const noexcept;
  /// As it was given: the legacy default stream is null here, or CUDA's CU_STREAM_LEGACY.
  [[nodiscard]] CUstream_st* native() const noexcept { return native_; }
  [[nodiscard]] DeviceContext& context() const noexcept { return *context_; }

  /// Under either of its handles.
  [[nodiscard]] bool is_legacy_default() const noexcept;
  [[nodiscard]] bool is_per_thread_default() const noexcept;

  // What would break a capture is refused before the driver hears of it: StreamCaptured. is_done()
  // and sync() ask cuStreamIsCapturing first, which is one more driver call; wait() asks it of the
  // legacy default stream alone. A capture in the mode `global` also forbids to ask about streams
  // that have no part in it, which no question tells: for that there is RelaxedCaptureScope.

  /// Work submitted to this stream from now on waits for `event`'s mark. The host does not. An
  /// event of another device is fine; one that was never recorded is no wait at all. An event that
  /// marks captured work draws this stream into the capture; a stream that is captured may wait for
  /// no other event, or the driver breaks the capture.
  /// Errors  StreamCaptured: the legacy default stream, while a stream that waits for it is captured
  ///         or where the event marks captured work.
  void wait(EventRef event) const;
  /// Whether all work submitted so far is done. Never waits.
  /// Errors  StreamCaptured: is_capturing().
  [[nodiscard]] bool is_done() const;
  /// Blocks the calling thread until all work submitted so far is done.
  /// Errors  StreamCaptured: is_capturing().
  void sync() const;
  /// Whether what is submitted becomes part of a graph instead of running. Also true of the legacy
  /// default stream while a stream that waits for it is captured: it cannot be used then. True of a
  /// capture that has become invalid, until it is ended. One driver call, which breaks nothing.
  [[nodiscard]] bool is_capturing() const;

  friend bool operator==(const StreamRef& a, const StreamRef& b) noexcept {
    return a.context_ == b.context_ &&
           (a.native_ == b.native_ || (a.is_legacy_default() && b.is_legacy_default()));
  }

 private:
  DeviceContext* context_;
  CUstream_st* native_;
};

struct StreamOptions {
  /// Lower runs first. 0 is the default and the lowest; the device's range ends at some negative
  /// number, to which lower values are clamped.
  /// Errors  InvalidArgument: above 0.
  int priority = 0;
  /// Whether the legacy default stream waits for this stream and this stream for it. berth's own
  /// streams never do, unless asked.
  bool blocks_with_legacy_default = false;
};

/// Owns a CUDA stream. Moves; an empty Stream (moved from or released) owns nothing. Destroying one
/// with work pending is fine: the work completes. Allocators are told, so that memory cached for
/// the stream is neither lost nor confused with a later stream of the same handle.
class BERTH_API Stream {
 public:
  Stream(DeviceContext& context, StreamOptions options);
  /// Takes ownership of a stream that something else made.
  /// Errors  InvalidArgument: a default stream, or one that belongs to a StreamPool.
  static Stream adopt(StreamRef stream);
  ~Stream();
  Stream(Stream&& other) noexcept : ref_(other.ref_.context(), other.take()) {}
  Stream& operator=(Stream&& other) noexcept;

  /// The stream, which the caller owns from now on.
  CUstream_st* release() noexcept;
  [[nodiscard]] StreamRef ref() const noexcept { return ref_; }
  operator StreamRef() const noexcept { return ref_; }  // NOLINT: an owner serves as a reference

 private:
  explicit Stream(StreamRef stream) noexcept : ref_(stream) {}
  CUstream_st* take() noexcept {
    CUstream_st* const stream = ref_.native();
    ref_ = StreamRef(ref_.context(), nullptr);
    return stream;
  }

  StreamRef ref_;
};

}  // namespace berth
