// SPDX-License-Identifier: Apache-2.0
// Allocation traces: the requests of a program to an allocator, in order. For programs that link
// libberth_trace; berth.hpp does not include it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// The operation of an event.
enum class TraceOp : std::uint8_t {
  init_alloc,      ///< a block that was live before recording began
  alloc,           ///< a block is handed out
  free,            ///< freed and immediately reusable
  free_requested,  ///< freed by the program, while another stream may still use it
  free_completed,  ///< reusable from here on
  init_segment,    ///< from here on: events of the recorded allocator, and markers; id may be -1
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  reserved_total,  ///< bytes: the total that the recorded allocator had reserved
  out_of_memory,   ///< "oom" in text; bytes: the request that failed
  snapshot,        ///< a moment of interest, such as the end of an iteration
};

/// One event of a trace.
struct TraceEvent {
  TraceOp op;
  std::int32_t device;    ///< logical ordinal, 0 or more
  std::int32_t stream;    ///< 0 is the default stream, others are numbered by first use
  std::int64_t id;        ///< names a block from its allocation to its free; never used twice
  std::uint64_t bytes;    ///< the requested size
  std::uint64_t time_us;  ///< in microseconds, or the number of the event; may decrease
};

/// A trace: its origin and its events.
struct Trace {
  std::string name;                                         ///< where it was read from
  std::vector<std::pair<std::string, std::string>> header;  ///< `# key: value` lines, in order
  std::vector<TraceEvent> events;
};

/// Options for reading a trace.
struct TraceOptions {
  /// The most host memory that reading may take: the file, its content after decompression, tables,
  /// and the trace that is returned.
  std::uint64_t host_bytes_max = std::uint64_t{4} << 30;
};

/// Reads a trace from a regular file. The format is recognized by content: berth's own lines
/// (docs/traces.md), or a PyTorch memory snapshot as pickle or JSON (its device_traces, and the
/// blocks that were live before them), each plain or compressed by gzip. A pickle is read as data
/// only: one that names a class is rejected.
///
/// Every event is checked: an id is allocated once, freed once, and with the bytes of its
/// allocation.
/// Blocking  Until the file is read.
/// Errors    InvalidArgument that names the file, the line (or the place in a snapshot) and what is
///           accepted there; also for a pipe, a device or a directory, and for content that needs
///           more than `options.host_bytes_max`.
/// Threads   Safe from any thread.
[[nodiscard]] BERTH_API Trace read_trace(const std::string& path, const TraceOptions& options = {});
/// Reads a trace from memory, as read_trace() does; `name` is the file name in errors. `content`
/// itself counts towards the limit.
[[nodiscard]] BERTH_API Trace parse_trace(const std::string& name, std::string_view content,
                                          const TraceOptions& options = {});

}  // namespace berth
