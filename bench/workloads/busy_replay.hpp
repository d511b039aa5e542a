// SPDX-License-Identifier: Apache-2.0
// Runs a BusyProgram on an allocator, and measures it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/error.hpp"

#include "support/simulated_session.hpp"
#include "workloads/block.hpp"
#include "workloads/busy_figures.hpp"
#include "workloads/busy_machine.hpp"
#include "workloads/busy_passes.hpp"
#include "workloads/busy_program.hpp"
#include "workloads/fluid_bound.hpp"
#include "workloads/operation_times.hpp"
#include "workloads/turn_taker.hpp"

namespace berth::bench {

/// Whether OtherUses other than `none` can be measured.
template <class Allocator>
concept RecordsUses = requires(Allocator& allocator, void* data, StreamRef stream) {
  allocator.record_stream(data, stream);
  allocator.record_use(data, stream);
};

/// No other code may use the device meanwhile. The allocator must be new.
template <class Allocator>
class BusyReplay {
 public:
  BusyReplay(SimulatedSession& machine, Allocator& allocator, const BusyProgram& program,
             const BusyOptions& options)
      : session_(machine.session()),
        simulator_(machine.simulator()),
        machine_(machine, program.streams, options.kernel_ns),
        allocator_(allocator),
        program_(program),
        options_(options),
        turns_(turns_of(program)),
        bound_(program, options),
        blocks_(slots_with_persistent(program)),
        times_(2 * program.operations_of_pass()) {
    if (program.threads == 1) return;
    second_ = std::make_unique<TurnTaker>();
    second_->take_turn([this] { session_.enter_thread(); });
  }
  ~BusyReplay() { deallocate_all(allocator_, blocks_, machine_.stream(0)); }
  BusyReplay(const BusyReplay&) = delete;
  BusyReplay& operator=(const BusyReplay&) = delete;

  /// Runs the next pass.
  BusyPassFigures step() {
    figures_ = {};
    times_.clear();
    // Blocks that persist from the previous pass are part of this one's peak.
    figures_.bytes_live_peak = bytes_live_;
    const std::uint64_t start_ns = simulator_.now_ns();
    const DriverCalls calls_before = session_.driver().calls();
    const auto counters_before = counters();
    const std::size_t quarter = program_.operations.size() / 4 * 3;
    DriverCalls calls_at_quarter = calls_before;
    for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
      const std::size_t begin = turns_[turn];
      const std::size_t end =
          turn + 1 < turns_.size() ? turns_[turn + 1] : program_.operations.size();
      const std::size_t middle = std::clamp(quarter, begin, end);
      run(turn, begin, middle);
      if (middle == quarter && middle < end) calls_at_quarter = session_.driver().calls();
      run(turn, middle, end);
    }
    figures_.calls_last_quarter = session_.driver().calls() - calls_at_quarter;
    end_pass(*this, program_, pass_++);
    if (options_.sync) machine_.sync();
    figures_.calls = session_.driver().calls() - calls_before;
    if (counters_before) figures_.counters = *counters() - *counters_before;
    figures_.bound_in_its_time = bound_.waste();
    figures_.virtual_ns = simulator_.now_ns() - start_ns;
    figures_.mean_ns = times_.mean_ns();
    figures_.p999_ns = times_.quantile_ns(0.999);
    return figures_;
  }

  // The interface that run_operations() requires.
  void allocate(std::uint32_t slot, std::uint64_t bytes, std::uint32_t stream) {
    Block& block = blocks_[slot];
    try {
      times_.add([&] { bench::allocate(allocator_, block, bytes, machine_.stream(stream)); });
    } catch (const OutOfMemory&) {
      ++figures_.refused;
      return;
    }
    bound_.advance_to(simulator_.now_ns());
    bound_.allocate(slot, bytes, stream);
    bytes_live_ += bytes;
    figures_.bytes_live_peak = std::max(figures_.bytes_live_peak, bytes_live_);
    figures_.bytes_reserved_peak = std::max(figures_.bytes_reserved_peak,
                                            simulator_.device_bytes_used(0) - bytes_used_before_);
    machine_.launch(stream, block.data, bytes);
  }
  void wait(std::uint32_t stream, std::uint32_t other) {
    bound_.advance_to(simulator_.now_ns());
    bound_.wait(stream, other);
    machine_.wait(stream, other);
  }
  void free(std::uint32_t slot, std::uint32_t stream, std::uint32_t user) {
    Block& block = blocks_[slot];
    if (block.data == nullptr) return;  // refused
    bound_.advance_to(simulator_.now_ns());
    bound_.free(slot, stream, user);
    bytes_live_ -= block.bytes;
    const bool is_used = user != BusyOperation::kNone;
    if (is_used) use(block, stream, user);
    times_.add([&] {
      if (is_used) record(block.data, machine_.stream(user));
      deallocate(allocator_, block, machine_.stream(stream));
    });
  }
  void move(std::uint32_t from, std::uint32_t to) {
    blocks_[to] = std::exchange(blocks_[from], {});
    bound_.move(from, to);
  }

 private:
  void run(std::size_t turn, std::size_t begin, std::size_t end) {
    const auto operations = std::span(program_.operations).subspan(begin, end - begin);
    if (turn % 2 == 0)
      run_operations(*this, operations);
    else
      second_->take_turn([this, operations] { run_operations(*this, operations); });
  }
  void use(const Block& block, std::uint32_t stream, std::uint32_t user) {
    if (options_.dependencies && user != stream) machine_.wait(user, stream);
    machine_.launch(user, block.data, options_.dependencies ? block.bytes : 0);
  }
  void record(void* data, StreamRef stream) {
    if constexpr (RecordsUses<Allocator>) {
      if (options_.other_uses == OtherUses::record_use)
        allocator_.record_use(data, stream);
      else
        allocator_.record_stream(data, stream);
    }
  }
  [[nodiscard]] std::optional<MemoryCounters> counters() const {
    if constexpr (requires { allocator_.counters(); })
      return allocator_.counters();
    else
      return std::nullopt;
  }

  Session& session_;
  sim::Simulator& simulator_;
  BusyMachine machine_;
  Allocator& allocator_;
  const BusyProgram& program_;
  const BusyOptions options_;
  const std::vector<std::size_t> turns_;
  const std::uint64_t bytes_used_before_ = simulator_.device_bytes_used(0);
  std::unique_ptr<TurnTaker> second_;
  FluidBound bound_;  ///< in the time that the allocator takes
  std::vector<Block> blocks_;
  OperationTimes times_;
  int pass_ = 0;
  std::uint64_t bytes_live_ = 0;
  BusyPassFigures figures_;
};

/// `arguments` are the allocator's, after the session.
template <class Allocator, class... Arguments>
BusyFigures measure_busy(const BusyProgram& program, const BusyOptions& options,
                         const Arguments&... arguments) {
  BusyFigures figures;
  figures.trace = program.name;
  figures.operations = program.operations_of_pass();
  figures.streams = program.streams;
  FluidBound bound(program, options);
  sim::Config config = measured_simulator(sim::Progress::timed);
  config.memory = {options.device_bytes};
  config.checks = options.checks;
  config.queue_entries = options.queue_entries;
  SimulatedSession machine(config);
  Allocator allocator(machine.session(), arguments...);
  BusyReplay replay(machine, allocator, program, options);
  for (int pass = 0; pass < options.passes; ++pass) {
    bound.step();
    figures.passes.push_back(replay.step());
    figures.passes.back().bound = bound.waste();
  }
  return figures;
}

}  // namespace berth::bench
