// SPDX-License-Identifier: Apache-2.0
// Whether memory that one stream freed may serve another.
#pragma once

namespace berth {

/// What a request may have of the memory that other streams have freed, where nothing will do that is
/// free for its own stream: what was freed on that stream, and what is no stream's any more, such as
/// what streams that are gone for good have left.
///
/// Whatever is chosen: memory passes to another stream only when the work that used it is done, or
/// behind it; and no request fails while what is free would serve it, because the last rungs of the
/// out-of-memory ladder wait for the GPU on the host. CUDA's own pools know when_idle and
/// behind_waits as "opportunistic" reuse and reuse by "internal dependencies" (CUmemPool_attribute).
enum class CrossStreamReuse {
  /// Nothing, as long as new memory can be obtained; no other stream is asked for any. Streams that
  /// take turns each have memory of their own then, and none calls the driver.
  ///
  /// Where memory is short (a limit or the driver refuses more, a soft limit is passed, another pool
  /// lacks some), and where it is trimmed or released, what idle streams have left goes back to the
  /// driver: as many whole granules as are wanted or, without virtual memory, whole segments. Only
  /// where these do not do, all that idle streams have left is open to all. A pool for graphs, which
  /// gives nothing back, then passes on what a request lacks.
  never,

  /// What streams have left whose work is done when they are asked, before new memory is obtained: all
  /// of it, for everybody, where no stream has work pending; else as little as serves the request.
  when_idle,

  /// That, and before a request fails what streams have left whose work is pending: the request's
  /// stream is made to wait for that work. The host is not.
  behind_waits,

  /// That, and already before new memory is obtained, once that would take what is reserved beyond
  /// 1.03 times the most that was ever live. Blocks of the request's own stream that await another
  /// stream's use (record_stream(), record_use()) come free behind a wait for that use; what other
  /// streams have left, behind a wait for all their work so far: all of it, of as few streams as
  /// serve the request, those first that have freed nothing for longest. Where that does not do, their
  /// blocks that await a use come free behind both.
  ///
  /// Price: streams wait for one another, so that less of their work overlaps. docs/benchmarks.md
  /// has the figures.
  before_growth,
};

}  // namespace berth
