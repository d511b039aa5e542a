// SPDX-License-Identifier: Apache-2.0
// Very many operations on the device allocator, in every mode, against a model that looks at each.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "endurance/failure.hpp"
#include "endurance/mode.hpp"
#include "endurance/program.hpp"

namespace {

using namespace berth::endurance;

/// From here on a mode must have met what it is made for.
constexpr std::uint64_t kOperationsTelling = 400'000;

struct Total {
  Tally tally;
  std::uint64_t page_remaps = 0;
  std::uint64_t stream_waits = 0;
  std::uint64_t host_waits = 0;
  std::uint64_t given_back = 0;

  void add(const Outcome& outcome) {
    tally.add(outcome.tally);
    page_remaps += outcome.counters.page_remaps;
    stream_waits += outcome.counters.stream_waits_inserted;
    host_waits += outcome.counters.deferred_free_waits;
    given_back += outcome.counters.segments_released;
  }
};

/// A test that no longer gets into trouble would pass for ever.
void require_trouble(const Mode& mode, const Total& total) {
  if (total.tally.operations < kOperationsTelling) return;
  require(mode.calm || mode.relieved || total.tally.refusals > 0, "no request was ever refused");
  require(mode.calm || total.given_back > 0, "no memory ever went back to the driver");
  require(mode.calm || !mode.virtual_memory || total.page_remaps > 0,
          "no granule was ever mapped twice");
  require(!mode.relieved || total.tally.reliefs > 0, "on_pressure never freed a block");
  require(!mode.has_guests || total.tally.guests > 0, "no stream or pool ever came and went");
  require(mode.threads == 1 || total.tally.bytes_across_threads > 0,
          "no block ever went to another thread");
  const bool inserts_waits = mode.cross_stream_reuse >= berth::CrossStreamReuse::behind_waits;
  require(inserts_waits || total.stream_waits == 0, "a stream had to wait for another");
  require(!inserts_waits || mode.progress == berth::sim::Progress::eager || total.stream_waits > 0,
          "no stream ever had to wait for another");
}

void run_mode(const Mode& mode, std::uint64_t first_seed, std::uint64_t operations) {
  const auto start = std::chrono::steady_clock::now();
  Total total;
  std::uint64_t seed = first_seed;
  for (std::uint64_t left = operations; left >= mode.threads; ++seed) {
    const std::uint64_t count = std::min(left, mode.operations_a_seed());
    set_running(fmt::format(
        "endurance: stopped in mode {} by seed {}; again: endurance --mode {} --seed {} --one\n",
        mode.name, seed, mode.name, seed));
    total.add(run_program(mode, seed, count));
    left -= count;
  }
  require_trouble(mode, total);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print(
      "{:<28} {:>10} operations, seeds {}-{}; refused {}, given back {}, page remaps {}, "
      "waits {} on streams {} on the host, {} across threads, races {}; {:.1f} s\n",
      mode.name, total.tally.operations, first_seed, seed - 1, total.tally.refusals,
      total.given_back, total.page_remaps, total.stream_waits, total.host_waits,
      berth::format_bytes(total.tally.bytes_across_threads), mode.checked ? "0" : "not looked for",
      took.count());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Random programs of allocations on the simulated driver, in every mode, against a model that "
      "looks at each operation. One line a mode; stops at the first thing that is wrong.",
      "endurance");
  std::uint64_t operations = 100'000'000;
  std::uint64_t seed = 1;
  std::string only;
  bool one = false;
  std::vector<std::string> names;
  for (const Mode& mode : modes()) names.push_back(mode.name);
  app.add_option("--operations", operations, "Of all modes together; a night: 10000000000")
      ->capture_default_str();
  app.add_option("--seed", seed, "The first one of each mode")->capture_default_str();
  app.add_option("--mode", only, "Only this one, with its share of the operations")
      ->check(CLI::IsMember(names));
  app.add_flag("--one", one, "Only one seed a mode");
  CLI11_PARSE(app, argc, argv);

  catch_signals();
  for (const Mode& mode : modes()) {
    if (!only.empty() && mode.name != only) continue;
    run_mode(mode, seed, one ? mode.operations_a_seed() : operations / 100 * mode.share);
  }
  return 0;
}
