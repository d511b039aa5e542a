// SPDX-License-Identifier: Apache-2.0
// When copies of pageable memory use gates, and when the driver copies instead.
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/refused_threads.hpp"

namespace gates_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 300'000;

CopierOptions with(CopyGates gates) {
  return {.staging_slot_bytes = 64_KiB, .staging_slots = 4, .workers = 1, .gates = gates};
}

/// Copies there and back, and counts gates.
std::uint64_t gates_of_copies(const sim::Config& config, CopyGates gates) {
  CopyTest test(config, with(gates));
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 1);
  Bytes back(kBytes);
  const Transfer in = test.copier.start(there.data(), content.data(), kBytes, stream);
  const Transfer out = test.copier.start(back.data(), there.data(), kBytes, stream);
  in.wait();
  out.wait();
  CHECK((back == content));
  const CopyCounters counted = test.copier.counters();
  CHECK(counted.copies_staged + counted.copies_by_driver == 2);
  const std::uint64_t waits = driver_calls(*test.runtime, "cuStreamWaitValue32");
  CHECK((waits > 0) == (counted.copies_staged > 0));
  return waits;
}

}  // namespace

TEST_CASE("copies use gates unless gates are disabled" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    sim::Config config;
    config.progress = progress;
    CHECK(gates_of_copies(config, CopyGates::automatic) > 0);
    CHECK(gates_of_copies(config, CopyGates::on) > 0);
    CHECK(gates_of_copies(config, CopyGates::off) == 0);
  }
}

TEST_CASE("blocking launches disable gates unless gates are requested") {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  for (const char* const value : {"1", "2"}) {
    const ScopedEnvironment blocking("CUDA_LAUNCH_BLOCKING", value);
    sim::Config config;
    CHECK(gates_of_copies(config, CopyGates::automatic) == 0);
  }
  for (const char* const value : {"", "0"}) {
    const ScopedEnvironment blocking("CUDA_LAUNCH_BLOCKING", value);
    CHECK(gates_of_copies({}, CopyGates::automatic) > 0);
  }
}

TEST_CASE("no gate is tried on a device without stream memory operations" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  sim::Config config;
  config.memory_operations = false;
  CHECK(gates_of_copies(config, CopyGates::automatic) == 0);
}

TEST_CASE(
    "if no thread can be started the driver copies, and operations that need one are refused") {
  if (!kCanRefuseThreads) return;
  CopyTest test;
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 1);
  bool called = false;
  const auto kept = std::make_shared<int>();
  {
    const RefusedThreads refused;
    test.copier.start(there.data(), content.data(), kBytes, stream).wait();
    CHECK((there.read() == content));
    there.write(Bytes(kBytes, 0));
    const TransferOptions options{.keep_alive = kept,
                                  .on_done = [&](std::exception_ptr) { called = true; }};
    const auto refusal = [&](const auto& call) {
      CHECK(contains(message_of<Exhausted>(call), "no thread can be started for completion"));
      CHECK(kept.use_count() == 2);  // and the one of `options`
    };
    refusal([&] { test.copier.start(there.data(), content.data(), kBytes, stream, options); });
    const CopyRange ranges[] = {{there.data(), content.data(), 10}};
    refusal([&] { test.copier.start_batch(ranges, stream, options); });
    refusal([&] { test.runtime->completions().when_done(stream, [&](std::exception_ptr) {}); });
    stream.ref().sync();
    CHECK((there.read() == Bytes(kBytes, 0)));
  }
  test.copier
      .start(there.data(), content.data(), kBytes, stream,
             {.on_done = [&](std::exception_ptr) { called = true; }})
      .wait();
  test.runtime->completions().finish();
  CHECK(called);
  CHECK((there.read() == content));
}

}  // namespace gates_test
