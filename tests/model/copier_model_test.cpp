// SPDX-License-Identifier: Apache-2.0
// Random copies of every shape between buffers of every kind, against arrays that are copied at
// once (copy/copy_program.hpp).
#include <cstddef>
#include <cstdint>

#include <doctest/doctest.h>

#include "copy/copy_program.hpp"

namespace copier_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBufferBytes = 300'000;

constexpr StagingShortage kShortages[] = {StagingShortage::share, StagingShortage::grow,
                                          StagingShortage::fall_back};

sim::Config config(std::uint64_t seed) {
  sim::Config config;
  config.devices = 2;
  config.progress = sim::Progress::random;
  config.seed = seed;
  config.peer = seed % 2 == 0;
  return config;
}

CopierOptions options(std::uint64_t seed) {
  return {.staging_slot_bytes = 64_KiB,
          .staging_slots = 3,
          .staging_on_shortage = kShortages[seed % 3],
          .workers = 1 + seed % 2,
          .direct_piece_bytes = 64_KiB};
}

}  // namespace

TEST_CASE("random copies between memory of every kind give the result of immediate copies") {
  for_each_seed([](std::uint64_t seed) {
    CopyTest test(config(seed), options(seed));
    const CopyProgram::Streams streams = CopyProgram::make_streams(test);
    CopyProgram program(test, streams, kBufferBytes, seed);
    run_to_the_end(program, operations(600));
    test.runtime->completions().finish();
    program.check_ends();
    CHECK(test.copier.counters().bytes_copied == program.bytes_copied());
  });
}

}  // namespace copier_model_test
