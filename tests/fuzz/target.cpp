// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"

#include <cstdlib>
#include <unistd.h>

#include <fmt/core.h>

#include "base/check.hpp"
#include "fuzz/actions.hpp"
#include "fuzz/host_process.hpp"
#include "fuzz/memory_parameters.hpp"
#include "fuzz/setup.hpp"
#include "fuzz/tear_down.hpp"
#include "support/second_thread.hpp"

namespace berth::fuzz {
namespace {

bool explains = false;

std::vector<Tally>& mutable_tallies() {
  static std::vector<Tally> all(actions().size());
  return all;
}

/// What two runs of one input have in common.
struct Outcome {
  std::uint64_t order = 0;
  std::uint64_t results = 0xcbf29ce484222325;
  std::uint64_t now_ns = 0;
  std::string log;

  void add(CallResult result) {
    // What NVML says of the process is beyond the input.
    if (result.is_cuda) results = (results ^ static_cast<unsigned>(result.code)) * 0x100000001b3;
  }
  bool operator==(const Outcome&) const = default;
};

void act(Input record, const Setup& setup, Things& things, sim::Simulator& simulator,
         test::SecondThread& second, Outcome& outcome) {
  const std::size_t place = record.number(2) % actions().size();
  const Action& action = actions()[place];
  const unsigned thread = record.byte();
  Turn turn{.bytes = record,
            .things = things,
            .simulator = simulator,
            .config = setup.config,
            .real_time = setup.once};
  const auto take_turn = [&] {
    const CallResult result = action.act(turn);
    Tally& tally = mutable_tallies()[place];
    ++tally.taken;
    tally.succeeded += result.code == 0;
    outcome.add(result);
    if (explains)
      fmt::print("{}{}: {}\n", thread < kOnSecondThread ? "" : "second thread: ", action.name,
                 result.code);
  };
  if (thread < kOnSecondThread)
    take_turn();
  else
    second.run(take_turn);
  if (thread == kEndSecondThread) second.end();
}

/// Stalls are found without checks, too: nobody would learn of them otherwise.
void check_finding(const std::string& finding, const sim::Config& config) {
  const bool known =
      finding.starts_with("race: ") || finding.starts_with("leak: ") || finding.starts_with("and ");
  BERTH_CHECK(finding.starts_with("stall: ") || (config.checks && known));
}

Outcome run_once(const Setup& setup, Input records) {
  clear_buffers();
  Outcome outcome;
  Things things;
  sim::Simulator simulator(setup.config);
  if (explains) fmt::print("{}\n", setup.config.to_text());
  {
    test::SecondThread second;
    for (std::size_t left = kActionsMax; left != 0 && !records.empty(); --left)
      act(records.take(kRecordBytes), setup, things, simulator, second, outcome);
  }
  for (const Thing& descriptor : things.all_live(Kind::descriptor))
    close(static_cast<int>(descriptor.value));
  if (!setup.leave_alive) tear_down(simulator, setup.config, things);
  outcome.order = simulator.order_hash();
  outcome.now_ns = simulator.now_ns();
  outcome.log = simulator.event_log();
  if (explains)
    fmt::print("order {:x}, results {:x}, {} ns\n", outcome.order, outcome.results, outcome.now_ns);
  const std::vector<std::string> findings = simulator.take_findings();
  for (const std::string& finding : findings) check_finding(finding, setup.config);
  return outcome;
}

}  // namespace

void explain() {
  explains = true;
}

const std::vector<Tally>& tallies() {
  return mutable_tallies();
}

void run_input(std::string_view bytes) {
  Input input(bytes);
  const Setup setup = read_setup(input);
  if (setup.visible.empty())
    unsetenv("CUDA_VISIBLE_DEVICES");
  else
    setenv("CUDA_VISIBLE_DEVICES", setup.visible.c_str(), 1);
  const HostProcess before = look_at_process();
  const Outcome outcome = run_once(setup, input);
  BERTH_CHECK(setup.once || run_once(setup, input) == outcome);
  BERTH_CHECK(is_process_like(before));
}

}  // namespace berth::fuzz
