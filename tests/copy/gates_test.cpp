// SPDX-License-Identifier: Apache-2.0
// When copies of pageable memory use gates, and when the driver copies instead.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// Copies to the device, and back if `both_ways`, under a tool. Returns the copies by the driver,
/// 3 or more if it ends the use of gates.
std::uint64_t copies_by_driver_under(sim::LaunchBlocking tool, CopyGates gates, bool both_ways) {
  sim::Config config;
  config.launch_blocking = tool;
  CopyTest test(config, with(gates));
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, kBytes);
  std::uint64_t by_driver = 0;
  // A call that returns late, because the machine is busy, makes a trial inconclusive.
  for (std::size_t copy = 0; copy < 100 && by_driver < 3; ++copy) {
    const Bytes content = pattern(kBytes, copy);
    test.copier.start(there.data(), content.data(), kBytes, stream).wait();
    Bytes back(kBytes);
    if (both_ways) test.copier.start(back.data(), there.data(), kBytes, stream).wait();
    CHECK((both_ways ? back == content : there.read() == content));
    by_driver = test.copier.counters().copies_by_driver;
  }
  CHECK(test.reports.all().size() == (by_driver == 0 ? 0 : 1));
  return by_driver;
}

TEST_CASE("a tool that completes each call before the next ends the use of gates" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  const ScopedEnvironment unset("CUDA_LAUNCH_BLOCKING", std::nullopt);
  for (const bool both_ways : {false, true}) {
    CHECK(copies_by_driver_under(sim::LaunchBlocking::all, CopyGates::automatic, both_ways) >= 3);
    CHECK(copies_by_driver_under(sim::LaunchBlocking::all, CopyGates::on, both_ways) == 0);
  }
}

TEST_CASE("a tool that serializes work, but no waits of streams, accepts gates" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  const ScopedEnvironment unset("CUDA_LAUNCH_BLOCKING", std::nullopt);
  for (const CopyGates gates : {CopyGates::automatic, CopyGates::on})
    CHECK(copies_by_driver_under(sim::LaunchBlocking::work, gates, true) == 0);
}

TEST_CASE("a queue that is full of the work behind a gate is no tool" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  const ScopedEnvironment unset("CUDA_LAUNCH_BLOCKING", std::nullopt);
  sim::Config config;
  config.driver_version = 12'080;  // without the driver's batches
  CopyTest test(config, {.staging_slot_bytes = 4_MiB, .staging_slots = 4, .workers = 1});
  const Stream stream = test.stream();
  constexpr std::size_t kRanges = 4096;
  constexpr std::size_t kRangeBytes = 512;
  REQUIRE(kRanges > std::size_t(config.queue_entries));  // each an entry
  Buffer there(test, Kind::device, 2 * kRanges * kRangeBytes);
  const Bytes content = pattern(2 * kRanges * kRangeBytes, 1);
  std::vector<CopyRange> ranges;
  for (std::size_t offset = 0; offset < content.size(); offset += 2 * kRangeBytes)
    ranges.push_back({there.data() + offset, content.data() + offset, kRangeBytes});
  std::uint64_t gates_of_first = 0;
  for (std::size_t batch = 0; batch < 5; ++batch) {
    test.copier.start_batch(ranges, stream).wait();
    const std::uint64_t gates = driver_calls(*test.runtime, "cuStreamWaitValue32");
    if (batch == 0) gates_of_first = gates;
    CHECK(gates == (batch + 1) * gates_of_first);  // also of the trial, which is the first
  }
  CHECK(gates_of_first > 0);
  CHECK(test.copier.counters().copies_by_driver == 0);
  CHECK(test.reports.all().empty());
}

TEST_CASE("no gate is tried on a device without stream memory operations" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  sim::Config config;
  config.memory_operations = {false};
  CHECK(gates_of_copies(config, CopyGates::automatic) == 0);
}

TEST_CASE("each device decides about gates for itself" * needs_gates()) {
  const ScopedEnvironment nothing("BERTH_CONF", std::nullopt);
  CopyTest test(sim::Config::parse("devices=2,memory=1GiB,memory_operations=off/on"),
                with(CopyGates::automatic));
  for (const int device : {0, 1}) {
    const Stream stream = test.stream(device);
    Buffer there(test, device == 0 ? Kind::device : Kind::peer, kBytes);
    const Bytes content = pattern(kBytes, 1);
    test.copier.start(there.data(), content.data(), kBytes, stream).wait();
    CHECK((there.read() == content));
    const CopyCounters counted = test.copier.counters();
    CHECK(counted.copies_by_driver == 1);
    CHECK(counted.copies_staged == (device == 0 ? 0 : 1));
  }
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
