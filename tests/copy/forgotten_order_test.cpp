// SPDX-License-Identifier: Apache-2.0
// The simulated driver reports an order that a program has forgotten, even between copies of
// pageable memory: the waits of berth's threads do not order the program's work.
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/thinned.hpp"

namespace forgotten_order_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64 * 1024;
constexpr std::uint64_t kSeeds = 3;

enum class Forgets { nothing, first_join, second_join };

sim::Config machine(sim::Progress progress, std::uint64_t seed) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  config.seed = seed;
  return config;
}

/// From the host to cuda:1, from there to cuda:0, and back to the host, each on a stream of its
/// own.
struct RoundTrip : CopyTest {
  RoundTrip(sim::Progress progress, std::uint64_t seed, Kind host, std::size_t bytes)
      : CopyTest(machine(progress, seed), {.staging_slot_bytes = kSlot, .staging_slots = 8}),
        source(*this, host, bytes),
        there(*this, Kind::peer, bytes),
        here(*this, Kind::device, bytes),
        back(*this, host, bytes) {
    source.write(pattern(bytes, seed));
  }

  void run(Forgets forgets) {
    copier.copy_async(there.data(), source.data(), source.bytes(), out);
    if (forgets != Forgets::first_join) over.ref().wait(runtime->record(out));
    copier.copy_async(here.data(), there.data(), source.bytes(), over);
    if (forgets != Forgets::second_join) home.ref().wait(runtime->record(over));
    copier.copy_async(back.data(), here.data(), source.bytes(), home);
    for (const Stream* stream : {&out, &over, &home}) stream->ref().sync();
  }
  /// The same by transfers, whose end a program waits for instead of for events.
  void run_by_transfers(Forgets forgets) {
    const Transfer first = copier.start(there.data(), source.data(), source.bytes(), out);
    if (forgets != Forgets::first_join) first.wait();
    const Transfer second = copier.start(here.data(), there.data(), source.bytes(), over);
    if (forgets != Forgets::second_join) second.wait();
    const Transfer third = copier.start(back.data(), here.data(), source.bytes(), home);
    for (const Transfer* transfer : {&third, &second, &first}) transfer->wait();
  }
  bool found_race() {
    const std::vector<std::string> findings = simulator.take_findings();
    for (const std::string& finding : findings) CHECK(finding.starts_with("race: "));
    return !findings.empty();
  }

  Buffer source, there, here, back;
  Stream out = stream(1);
  Stream over = stream(0);
  Stream home = stream(0);
};

/// In how many seeds a race is found, of kSeeds.
std::uint64_t races(sim::Progress progress, Kind host, std::size_t bytes, Forgets forgets,
                    bool by_transfers) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RoundTrip trip(progress, seed, host, bytes);
    by_transfers ? trip.run_by_transfers(forgets) : trip.run(forgets);
    found += trip.found_race() ? 1 : 0;
    if (forgets == Forgets::nothing) CHECK((trip.back.read() == trip.source.read()));
  }
  return found;
}

}  // namespace

TEST_CASE("a missing join between copies is reported in every run, and a present one never") {
  Thinned thinned(5);
  for (const auto progress : {sim::Progress::random, sim::Progress::eager, sim::Progress::timed}) {
    for (const Kind host : {Kind::pageable, Kind::pinned}) {
      for (const std::size_t bytes : {std::size_t{100}, 3 * kSlot, 20 * kSlot}) {
        for (const bool by_transfers : {false, true}) {
          if (thinned.skips()) continue;
          CAPTURE(int(progress));
          CAPTURE(name_of(host));
          CAPTURE(bytes);
          CAPTURE(by_transfers);
          CHECK(races(progress, host, bytes, Forgets::nothing, by_transfers) == 0);
          CHECK(races(progress, host, bytes, Forgets::first_join, by_transfers) == kSeeds);
          CHECK(races(progress, host, bytes, Forgets::second_join, by_transfers) == kSeeds);
        }
      }
    }
  }
}

}  // namespace forgotten_order_test
