// SPDX-License-Identifier: Apache-2.0
// Random programs of streams, events, forks, captures, callbacks and threads against a naive model.
// What the program orders by berth is all that keeps its work apart: the race detector finds an
// order that is missing, and the work itself says when it runs too early.
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "model/stream_program.hpp"

namespace stream_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr sim::Progress kModes[] = {sim::Progress::eager, sim::Progress::random,
                                    sim::Progress::timed};
constexpr StreamShortage kPolicies[] = {StreamShortage::share, StreamShortage::wait,
                                        StreamShortage::fail};

std::uint64_t run_program(std::uint64_t seed, sim::Progress progress, StreamShortage policy,
                          bool callbacks, std::uint64_t count) {
  const StreamPoolOptions pool{.streams_max = 1 + seed % 4, .on_shortage = policy};
  const std::string where = "seed " + std::to_string(seed) + ", progress " +
                            std::to_string(int(progress)) + ", policy " +
                            std::to_string(int(policy));
  StreamProgram program(where, seed, progress, pool, callbacks);
  run_to_the_end(program, count);
  return program.order_hash();
}

}  // namespace

TEST_CASE("a random program of streams and events has the expected order and leases") {
  for_each_seed([](std::uint64_t seed) {
    for (const sim::Progress progress : kModes) {
      for (const StreamShortage policy : kPolicies) {
        CAPTURE(int(progress));
        CAPTURE(int(policy));
        run_program(seed, progress, policy, seed % 2 == 0, operations(600));
      }
    }
  });
}

TEST_CASE("without callbacks the same seed gives the same run of streams and events") {
  const std::uint64_t seed = first_seed();
  CAPTURE(seed);
  for (const StreamShortage policy : kPolicies) {
    const auto run = [policy](std::uint64_t of) {
      return run_program(of, sim::Progress::random, policy, false, 300);
    };
    CHECK(run(seed) == run(seed));
    CHECK(run(seed) != run(seed + 4));
  }
}

}  // namespace stream_model_test
