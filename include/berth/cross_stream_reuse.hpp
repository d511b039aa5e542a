// SPDX-License-Identifier: Apache-2.0
// Whether memory that one stream freed may serve another.
#pragma once

#include "berth/cpp20.hpp"

namespace berth {

/// A request is served first from memory that its own stream freed, and from memory that belongs to
/// no stream, such as memory of streams that have ended. If these do not suffice, this option says
/// which memory freed on other streams may serve it.
///
/// With every value, memory passes to another stream only when the work that used it is done, or
/// after that work in stream order. With every value, no request fails while free memory could
/// serve it, because the last rungs of the out-of-memory ladder wait for the GPU on the host.
/// CUDA's memory pools call when_idle "opportunistic" reuse and behind_waits reuse by "internal
/// dependencies" (CUmemPool_attribute).
enum class CrossStreamReuse {
  /// None, as long as new memory can be obtained; no other stream is queried for memory. Streams
  /// that take turns then each keep memory of their own, and reuse it without driver calls.
  ///
  /// If memory is short (a limit or the driver refuses more, a soft limit is exceeded, or another
  /// pool is short), or when memory is trimmed or released, the free memory of idle streams is
  /// returned to the driver: as many whole granules as are needed or, without virtual memory, whole
  /// segments. Only if that does not suffice, all free memory of idle streams becomes available to
  /// all streams. A pool for graphs, which returns no memory, then makes only as much available as
  /// a request lacks.
  never,

  /// Memory of streams whose work is done when they are queried, before new memory is obtained. If
  /// no stream has work pending, all of it becomes available to all streams; otherwise, as little
  /// as serves the request.
  when_idle,

  /// As when_idle. In addition, before a request fails, memory of streams with pending work: the
  /// request's stream waits for that work. The host does not wait.
  behind_waits,

  /// As behind_waits. In addition, such waits come before new memory is obtained, once growth would
  /// take reserved memory beyond 1.03 times the peak of live memory. Blocks of the request's own
  /// stream that await another stream's use (record_stream(), record_use()) become free after a
  /// wait for that use. Free memory of other streams becomes available after a wait for all their
  /// work so far: all of their memory, of as few streams as serve the request, beginning with the
  /// streams whose last free is the oldest. If that does not suffice, their blocks that await a use
  /// become free after both waits.
  ///
  /// Price: streams wait for one another, so less of their work overlaps. docs/benchmarks.md has
  /// figures.
  before_growth,
};

}  // namespace berth
