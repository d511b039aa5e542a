// SPDX-License-Identifier: Apache-2.0
// Runs the allocations of a recorded trace again, without the work between them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "berth/stream.hpp"
#include "berth/trace.hpp"

#include "workloads/block.hpp"

namespace berth::bench {

/// The file's name, without folder and endings.
std::string trace_name(const Trace& trace);

/// A trace in a form that is cheap to run: blocks are numbered by slots, which are reused. Blocks
/// that the trace leaves live are freed at the end, so that it can be run again at once.
struct ReplayPlan {
  struct Operation {
    std::size_t slot;
    std::size_t bytes;  ///< 0 frees the slot
    std::size_t stream;
  };
  std::string name;  ///< trace_name()
  std::vector<Operation> operations;
  std::size_t bytes_live_peak = 0;  ///< as requested
  std::size_t slots = 0;
  std::size_t streams = 0;

  explicit ReplayPlan(const Trace& trace);
};

/// The traces of `folders`, separated by colons, in the order of their names. Missing folders count
/// as empty.
std::vector<ReplayPlan> read_replay_plans(const std::string& folders);
/// The same for the folders that BERTH_BENCH_TRACES names, bench/traces if it is unset.
std::vector<ReplayPlan> read_replay_plans();

/// One step is one pass over the trace. The first pass, which fills the cache, is the constructor.
template <class Allocator>
class Replay {
 public:
  /// `streams`: at least plan.streams of them.
  Replay(Allocator& allocator, const ReplayPlan& plan, std::vector<StreamRef> streams)
      : Replay(std::move(streams), allocator, plan) {  // so that a failure here frees the blocks
    step();
  }
  ~Replay() { deallocate_all(allocator_, blocks_, streams_.front()); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Three more passes, because an allocator may still map memory in the first ones.
  void warm_up() {
    for (int pass = 2; pass <= 4; ++pass) step();
  }

  void step() {
    for (const ReplayPlan::Operation& operation : plan_.operations) run(operation);
  }

  void run(const ReplayPlan::Operation& operation) {
    const auto& [slot, bytes, stream] = operation;
    if (bytes == 0) {
      deallocate(allocator_, blocks_[slot], streams_[stream]);
    } else {
      allocate(allocator_, blocks_[slot], bytes, streams_[stream]);
    }
  }

 private:
  Replay(std::vector<StreamRef> streams, Allocator& allocator, const ReplayPlan& plan)
      : allocator_(allocator), plan_(plan), streams_(std::move(streams)), blocks_(plan.slots) {}

  Allocator& allocator_;
  const ReplayPlan& plan_;
  std::vector<StreamRef> streams_;
  std::vector<Block> blocks_;
};

}  // namespace berth::bench
