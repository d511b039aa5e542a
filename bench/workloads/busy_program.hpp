// SPDX-License-Identifier: Apache-2.0
// A trace as a program whose streams are busy: each allocation queues a kernel on its stream, each
// use by another stream queues one there, and streams wait for each other. What a pass does follows
// from the trace, the options and the number of the pass alone, so that everything that runs it (an
// allocator, the bound that it is measured against) meets the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/trace.hpp"

namespace berth::bench {

/// What becomes of a `free_requested` row where the trace's header names the streams that use freed
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
  bool persist = false;  ///< a part of what lives at the end of a pass stays for the next
  bool sync = false;     ///< each pass ends with a wait for all its work
  int threads = 1;       ///< 1, or 2 that take turns
  int passes = 10;       ///< 1 or more
  std::uint64_t device_bytes = 160_GiB;
  bool checks = false;     ///< the simulator looks for races. Finds reuse by uses of other streams
                           ///< with dependencies only: without, these would be races themselves
  std::uint64_t seed = 1;  ///< of the dependencies, of what persists, and of the threads' turns
};

/// On average so many allocations lie between two waits of a stream for another.
inline constexpr std::uint64_t kDependencyInterval = 16;
/// One block of so many that live at the end of a pass persists.
inline constexpr std::uint64_t kPersistInterval = 4;
/// The longest turn of a thread, in operations; turns are 1 to this, uniform.
inline constexpr std::uint64_t kTurnMax = 256;

struct BusyOperation {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint64_t bytes;   ///< as asked; of the block, for a free too
  std::uint32_t slot;    ///< where the block is kept while it is live
  std::uint32_t stream;  ///< the block's
  std::uint32_t other_stream =
      kNone;  ///< allocation: waited for before; free: uses the block before
  bool allocates;
};

struct BusyProgram {
  std::string name;  ///< the trace file's, without folder and endings
  std::vector<BusyOperation> operations;
  /// What is freed once a pass is over: blocks that the trace leaves live, and those whose frees
  /// are its last rows. The order of the trace.
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

/// The first operation of each turn, of the thread that does not have the one before; the first
/// turn begins at 0. Nothing else where there is one thread.
std::vector<std::size_t> turns_of(const BusyProgram& program);

}  // namespace berth::bench
