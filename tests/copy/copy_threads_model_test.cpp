// SPDX-License-Identifier: Apache-2.0
// Programs of random copies (copy/copy_program.hpp) in several threads, each with buffers of its
// own, on one copier and the same streams.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_program.hpp"

namespace copy_threads_model_test {

using namespace berth;
using namespace berth::test;

TEST_CASE(
    "random copies of several threads on the same streams give the result of immediate copies") {
  for_each_seed([](std::uint64_t seed) {
    sim::Config config;
    config.devices = 2;
    config.progress = seed % 2 == 0 ? sim::Progress::eager : sim::Progress::random;
    config.seed = seed;
    CopyTest test(config, {.staging_slot_bytes = 64_KiB,
                           .staging_slots = 4,
                           .workers = 2,
                           .direct_piece_bytes = 64_KiB});
    const CopyProgram::Streams streams = CopyProgram::make_streams(test);
    const std::size_t count = 2 + seed % 3;
    std::vector<std::unique_ptr<CopyProgram>> programs;
    for (std::size_t index = 0; index < count; ++index)
      programs.push_back(std::make_unique<CopyProgram>(test, streams, 50'000, 10 * seed + index));
    const auto run = [](CopyProgram& program) { run_to_the_end(program, operations(100)); };
    std::vector<std::thread> threads;
    for (std::size_t index = 1; index < count; ++index)
      threads.emplace_back(run, std::ref(*programs[index]));
    run(*programs[0]);
    for (std::thread& thread : threads) thread.join();
    test.runtime->completions().finish();
    std::uint64_t bytes_copied = 0;
    for (const auto& program : programs) {
      program->check_ends();
      bytes_copied += program->bytes_copied();
    }
    CHECK(test.copier.counters().bytes_copied == bytes_copied);
  });
}

}  // namespace copy_threads_model_test
