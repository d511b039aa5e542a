// SPDX-License-Identifier: Apache-2.0
// A trace as a program whose streams are busy: each allocation queues a kernel on its stream, each
// use by another stream queues one there, and streams wait for each other. A pass depends only on
// the trace, the options and the number of the pass, so that it is the same for each allocator and
// for the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/trace.hpp"

namespace berth::bench {

/// The treatment of a `free_requested` row if the trace's header names the streams that use freed
/// blocks ("users", by the block's id modulo their number).
enum class OtherUses {
  none,           ///< no work of another stream: the block is freed at `free_completed`
  record_stream,  ///< work on the using stream, record_stream(), and the block is freed at once
  record_use,     ///< the same with record_use()
};

struct BusyOptions {
  std::uint64_t kernel_ns = 0;  ///< of each kernel; 0: there is no work, and all streams are idle
  /// Streams wait for each other: now and then before a request, for a stream that is drawn; and
  /// each use of another stream for the block's own.
  bool dependencies = false;
  OtherUses other_uses = OtherUses::record_stream;
  bool persist = false;  ///< some blocks that are live at the end of a pass stay for the next
  bool sync = false;     ///< each pass ends with a wait for all its work
  int threads = 1;       ///< 1, or 2 that take turns
  int passes = 10;       ///< 1 or more
  std::uint64_t device_bytes = 160_GiB;
  int queue_entries = 0;   ///< operations that a stream holds before a call blocks; 0: any number
  bool checks = false;     ///< the simulator looks for races. Finds reuse by uses of other streams
                           ///< with dependencies only: without, these would be races themselves
  std::uint64_t seed = 1;  ///< of the dependencies, of what persists, and of the threads' turns
};

/// The average number of allocations between two waits of a stream for another.
inline constexpr std::uint64_t kDependencyInterval = 16;
/// One of this many blocks that are live at the end of a pass persists.
inline constexpr std::uint64_t kPersistInterval = 4;
/// The longest turn of a thread, in operations; turns are 1 to this, uniform.
inline constexpr std::uint64_t kTurnMax = 256;

struct BusyOperation {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint64_t bytes;   ///< as requested; for a free, of its block
  std::uint32_t slot;    ///< the place of the block while it is live
  std::uint32_t stream;  ///< the block's
  std::uint32_t other_stream =
      kNone;  ///< allocation: waited for before; free: uses the block before
  bool allocates;
};

struct BusyProgram {
  std::string name;  ///< the trace file's, without folder and endings
  std::vector<BusyOperation> operations;
  /// The blocks that are freed after a pass: those that the trace leaves live, and those whose
  /// frees are its last rows. In the order of the trace.
  std::vector<BusyOperation> last_frees;
  std::size_t slots = 0;
  std::size_t streams = 0;
  std::uint64_t seed = 0;
  bool persist = false;
  int threads = 1;

  /// Streams of one device each have a number; those of several devices are different streams.
  /// Errors  InvalidArgument: a header line `users` that is not a list of streams.
  BusyProgram(const Trace& trace, const BusyOptions& options);

  /// Whether the block of `last_frees[index]` stays until the end of the next pass.
  [[nodiscard]] bool persists(int pass, std::size_t index) const;

  /// Operations of one pass, without those on blocks that persist.
  [[nodiscard]] std::size_t operations_of_pass() const {
    return operations.size() + last_frees.size();
  }
};

/// The first operation of each turn; turns alternate between the threads, and the first begins at
/// 0. With one thread there is only that turn.
std::vector<std::size_t> turns_of(const BusyProgram& program);

}  // namespace berth::bench
