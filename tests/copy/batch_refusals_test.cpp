// SPDX-License-Identifier: Apache-2.0
// Batches that start_batch() refuses before it copies, and the state after the driver refuses a
// part.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "berth/error.hpp"

#include "copy/batch_fixture.hpp"
#include "support/errors.hpp"

namespace batch_refusals_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 100'000;

/// A buffer of each kind, between which nothing has been copied yet.
struct Untouched {
  explicit Untouched(CopyTest& copies) : test(copies), batch(copies) {
    for (const Kind kind : kKinds) batch.make(kind, kBytes);
  }
  unsigned char* data(Kind kind) { return batch.buffers[std::size_t(kind)].buffer.data(); }

  /// `wrong` is refused wherever it stands among copies of each way, none of which is made.
  std::string refused(std::vector<CopyRange> wrong, StreamRef stream) {
    const std::vector<CopyRange> fine = {
        {data(Kind::device) + 50'000, data(Kind::pinned) + 50'000, 20'000},
        {data(Kind::device) + 80'000, data(Kind::pageable) + 50'000, 9000},
        {data(Kind::registered) + 50'000, data(Kind::pageable) + 70'000, 9000}};
    std::string message;
    for (std::size_t at = 0; at <= fine.size(); ++at) {
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<CopyRange> copies = fine;
        copies.insert(copies.begin() + std::ptrdiff_t(at), wrong.begin(), wrong.end());
        message = message_of<InvalidArgument>([&] { test.copier.start_batch(copies, stream); });
        std::ranges::reverse(wrong);
      }
    }
    test.simulator.run_all();
    batch.check_arrived();
    CHECK(test.copier.counters().bytes_copied == 0);
    return message;
  }

  CopyTest& test;
  BatchTest batch;
};

/// A batch of ranges to a device, first by staging memory, then directly.
struct TwoWays {
  static constexpr std::size_t kAll = 700'000;

  explicit TwoWays(const std::string& faults = {}) : test(config(faults), small_pieces()) {
    batch.add_many(device, 1500, pageable, 1500, 1400, 200);
    for (std::size_t index = 0; index < 10; ++index)
      batch.add(device, 400'000 + index * 20'100, pinned, index * 20'200, 20'000);
  }
  static sim::Config config(const std::string& faults) {
    sim::Config config = batch_machine(sim::Progress::manual);
    config.faults = sim::FaultPlan::parse(faults);
    return config;
  }

  CopyTest test;
  Stream stream = test.stream();
  BatchTest batch{test};
  BatchTest::Known& device = batch.make(Kind::device, kAll);
  BatchTest::Known& pinned = batch.make(Kind::pinned, kAll);
  BatchTest::Known& pageable = batch.make(Kind::pageable, kAll);
};

}  // namespace

TEST_CASE("a batch with a null or wrapping range is refused as a whole") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  Untouched buffers(test);
  unsigned char* const device = buffers.data(Kind::device);
  unsigned char* const pinned = buffers.data(Kind::pinned);
  auto* const edge = reinterpret_cast<unsigned char*>(UINTPTR_MAX - 10);
  buffers.refused({{nullptr, pinned, 1}}, stream);
  buffers.refused({{device, nullptr, 1}}, stream);
  buffers.refused({{edge, pinned, 100}}, stream);
  buffers.refused({{device, edge, 100}}, stream);
  buffers.refused({{device, pinned, SIZE_MAX}}, stream);
}

TEST_CASE("a batch with a target that overlaps another range is refused as a whole") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  Untouched buffers(test);
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::pageable}) {
    CAPTURE(name_of(kind));
    unsigned char* const data = buffers.data(kind);
    unsigned char* const other = buffers.data(Kind::foreign_device);
    // A copy and its own source.
    buffers.refused({{data, data, 100}}, stream);
    buffers.refused({{data + 99, data, 100}}, stream);
    // Two targets.
    buffers.refused({{data, other, 100}, {data, other + 100, 100}}, stream);
    buffers.refused({{data, other, 100}, {data + 99, other + 100, 100}}, stream);
    buffers.refused({{data, other, 100}, {data + 50, other + 100, 10}}, stream);
    buffers.refused({{data + 10, other, 1}, {data, other + 100, 100}, {data + 101, other + 300, 5}},
                    stream);
    // A source under a target.
    buffers.refused({{data, other, 100}, {other + 1000, data, 100}}, stream);
    buffers.refused({{data, other, 100}, {other + 1000, data + 99, 100}}, stream);
    buffers.refused({{data + 99, other, 1}, {other + 1000, data, 100}}, stream);
    // Among many that are right, in an order that is not that of the addresses.
    std::vector<CopyRange> many;
    for (std::size_t index = 0; index < 100; ++index)
      many.push_back({data + (index * 37 % 100) * 100, other + index * 100, 100});
    many.push_back({data + 5050, other + 20'000, 1});
    buffers.refused(many, stream);
    // A long source over many targets of which only the first is near.
    buffers.refused(
        {{other + 30'000, data, 5000}, {data + 10'000, other, 10}, {data + 4999, other + 100, 1}},
        stream);
  }
}

TEST_CASE("a batch with an address near null is refused, whichever side it is") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  Untouched buffers(test);
  auto* const nowhere = reinterpret_cast<unsigned char*>(0x1000);
  buffers.refused({{buffers.data(Kind::device), nowhere, 100}}, stream);
  buffers.refused({{nowhere, buffers.data(Kind::device), 100}}, stream);
}

TEST_CASE("a batch is refused as a whole if a copy does not involve the stream's device") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream zero = test.stream(0);
  Untouched buffers(test);
  for (const CopyRange wrong :
       {CopyRange{buffers.data(Kind::peer), buffers.data(Kind::pinned), 1000},
        CopyRange{buffers.data(Kind::pageable), buffers.data(Kind::peer), 1000},
        CopyRange{buffers.data(Kind::peer), buffers.data(Kind::peer) + 1000, 1000}})
    CHECK(contains(buffers.refused({wrong}, zero), "cuda:0"));
}

TEST_CASE(
    "after the driver refuses a part of a batch nothing more is written, and a retry succeeds") {
  for (const std::string fault : {"cuMemcpyBatchAsync@1=unknown", "cuMemcpyBatchAsync@3=unknown",
                                  "cuMemcpyBatchAsync=not_supported;cuMemcpyAsync@19=unknown"}) {
    for (const bool to_device : {true, false}) {
      CAPTURE(fault);
      CAPTURE(to_device);
      sim::Config config = batch_machine(sim::Progress::manual);
      config.faults = sim::FaultPlan::parse(fault);
      CopyTest test(config, small_pieces());
      const Stream stream = test.stream();
      BatchTest batch(test);
      auto& source = batch.make(to_device ? Kind::pinned : Kind::device, 700'000);
      auto& target = batch.make(to_device ? Kind::device : Kind::pinned, 700'000);
      batch.add_many(target, 16'500, source, 16'600, 16'384, 40);
      CHECK(contains(message_of<DriverError>([&] { batch.start(stream); }), "CUDA_ERROR_UNKNOWN"));
      const Bytes then = target.buffer.read();
      source.buffer.write(Bytes(700'000, 1));
      test.simulator.run_all();
      CHECK((target.buffer.read() == then));
      source.buffer.write(source.expected);
      batch.start(stream).wait();
      batch.check_arrived();
    }
  }
}

TEST_CASE("if a later group of a batch fails, the earlier groups have finished" * needs_gates()) {
  // By the copies themselves, and before there are any: the last two that ask whether the stream is
  // captured are the ways as they start.
  std::uint64_t asked = 0;
  {
    const TwoWays undisturbed;
    asked = undisturbed.test.simulator.calls("cuStreamIsCapturing");
  }
  std::vector<std::string> faults = {"cuMemcpyBatchAsync@1=unknown"};
  for (std::uint64_t number = asked + 1; number <= asked + 4; ++number)
    faults.push_back(fmt::format("cuStreamIsCapturing@{}=unknown", number));
  for (const std::string& fault : faults) {
    CAPTURE(fault);
    TwoWays ways(fault);
    message_of<DriverError>([&] { ways.batch.start(ways.stream); });
    const Bytes then = ways.device.buffer.read();
    ways.pageable.buffer.write(Bytes(TwoWays::kAll, 1));
    ways.pinned.buffer.write(Bytes(TwoWays::kAll, 1));
    ways.test.simulator.run_all();
    CHECK((ways.device.buffer.read() == then));
    ways.pageable.buffer.write(ways.pageable.expected);
    ways.pinned.buffer.write(ways.pinned.expected);
    ways.batch.start(ways.stream).wait();
    ways.batch.check_arrived();
  }
}

TEST_CASE("without pinned memory or gates the driver copies the ranges of a batch") {
  sim::Config without_gates = batch_machine(sim::Progress::random);
  without_gates.faults = sim::FaultPlan::parse("cuStreamWaitValue32@1=not_supported");
  sim::Config without_pinned = batch_machine(sim::Progress::random);
  without_pinned.host_memory = 0;
  for (const sim::Config& config : {without_gates, without_pinned}) {
    CopyTest test(config, small_pieces());
    const Stream stream = test.stream();
    BatchTest batch(test);
    auto& device = batch.make(Kind::device, 700'000);
    auto& pageable = batch.make(Kind::pageable, 700'000);
    auto& back = batch.make(Kind::pageable, 700'000);
    batch.add_many(device, 1500, pageable, 1600, 1400, 300);
    batch.start(stream).wait();
    batch.copies.clear();
    batch.add_many(back, 1400, device, 1500, 1400, 300);
    batch.start(stream).wait();
    batch.check_arrived();
    CHECK(test.copier.counters().copies_by_driver > 0);
  }
}

}  // namespace batch_refusals_test
