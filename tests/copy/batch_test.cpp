// SPDX-License-Identifier: Apache-2.0
// Batches of copies: each copy arrives, between all kinds of memory, with as few driver calls as
// the list allows.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/batch_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace batch_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPage = 4096;

/// Copies between all kinds that a stream of `device` may copy, of sizes around every boundary.
void add_mixture(BatchTest& batch, int device) {
  struct Side {
    BatchTest::Known* known;
    Kind kind;
    std::size_t at = 0;
  };
  std::vector<Side> targets;
  std::vector<Side> sources;
  for (const Kind kind : kKinds) {
    targets.push_back({&batch.make(kind, 1'200'000), kind});
    sources.push_back({&batch.make(kind, 1'200'000), kind});
  }
  std::size_t gap = 0;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100}, 7_KiB, 7_KiB + 1, kBatchPiece - 1, kBatchPiece + 1}) {
    for (Side& target : targets) {
      for (Side& source : sources) {
        if (!may_copy(device, source.kind, target.kind)) continue;
        gap = gap == 0 ? 11 : 0;  // every other one adjoins what is before it
        target.at += gap;
        source.at += gap;
        batch.add(*target.known, target.at, *source.known, source.at, bytes);
        target.at += bytes;
        source.at += bytes;
      }
    }
  }
}

}  // namespace

TEST_CASE("a batch copies between memory of all kinds, with and without the driver's batches") {
  Thinned thinned(3);
  const sim::Config random = batch_machine(sim::Progress::random);
  const sim::Config configs[] = {
      batch_machine(sim::Progress::eager), batch_machine(sim::Progress::manual), random,
      batch_machine(sim::Progress::random, /*peer=*/false), without_batches(random)};
  for (const sim::Config& config : configs) {
    for (const int device : {0, 1}) {
      if (thinned.skips()) continue;
      CAPTURE(config.to_text());
      CAPTURE(device);
      CopyTest test(config, small_pieces());
      const Stream stream = test.stream(device);
      BatchTest batch(test);
      add_mixture(batch, device);
      const Transfer transfer = batch.start(stream);
      CHECK(transfer.bytes() == batch.total);
      transfer.wait();
      batch.check_arrived();
      CHECK(transfer.is_done());
      CHECK(transfer.bytes_done() == batch.total);
      CHECK(test.copier.counters().bytes_copied == batch.total);
      CHECK(batch_calls(*test.runtime) > 0);
    }
  }
}

TEST_CASE("a batch of a thousand blocks of the host allocator takes few driver calls" *
          needs_gates()) {
  for (const bool to_device : {true, false}) {
    CAPTURE(to_device);
    CopyTest test(batch_machine(sim::Progress::eager));
    const Stream stream = test.stream();
    std::vector<Allocation> blocks;
    std::size_t total = 0;
    for (std::size_t index = 0; index < 1000; ++index) {
      blocks.push_back(test.runtime->host_memory().allocate(4_KiB + index % 16 * 4_KiB));
      total += blocks.back().bytes();
    }
    const Allocation device = test.runtime->memory(Device::cuda(0)).allocate(total, stream);
    std::vector<CopyRange> copies;
    auto* at = static_cast<std::byte*>(device.data());
    for (const Allocation& block : blocks) {
      copies.push_back(to_device ? CopyRange{at, block.data(), block.bytes()}
                                 : CopyRange{block.data(), at, block.bytes()});
      at += block.bytes();
    }
    test.copier.start_batch(copies, stream).wait();  // staging memory is there from here on
    const std::uint64_t queries = driver_calls(*test.runtime, "cuPointerGetAttributes");
    const std::uint64_t calls = driver_calls(*test.runtime);
    test.copier.start_batch(copies, stream).wait();
    CHECK(driver_calls(*test.runtime, "cuPointerGetAttributes") == queries + 1);
    CHECK(driver_calls(*test.runtime) - calls < 200);
  }
}

TEST_CASE("an empty batch and one without bytes are no operation, whatever the pointers") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 100);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const std::vector<CopyRange> none = {
      {nullptr, nullptr, 0}, {device.data(), nullptr, 0}, {device.data(), device.data(), 0}};
  for (const Transfer& transfer :
       {test.copier.start_batch({}, stream), test.copier.start_batch(none, stream)}) {
    CHECK(transfer.is_done());
    CHECK(transfer.bytes() == 0);
    transfer.wait();
  }
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE("ranges without bytes have no effect on other ranges") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& device = batch.make(Kind::device, 1000);
  auto& pinned = batch.make(Kind::pinned, 1000);
  batch.add(device, 0, pinned, 0, 500);
  batch.add(device, 100, pinned, 300, 0);  // inside of the one before
  batch.copies.push_back({nullptr, nullptr, 0});
  batch.add(device, 500, pinned, 500, 500);
  batch.start(stream).wait();
  batch.check_arrived();
}

TEST_CASE("scattered ranges of pinned and device memory are one driver call for each piece") {
  for (const auto& pair : {std::pair{Kind::pinned, Kind::device},
                           {Kind::device, Kind::registered},
                           {Kind::device, Kind::foreign_device}}) {
    const auto from = pair.first;
    const auto to = pair.second;
    CAPTURE(name_of(from));
    CopyTest test(batch_machine(sim::Progress::eager));
    const Stream stream = test.stream();
    BatchTest batch(test);
    auto& source = batch.make(from, 10'000'000);
    auto& target = batch.make(to, 10'000'000);
    batch.add_many(target, 33'000, source, 33'100, 32_KiB, 300);  // a piece holds 137 of them
    const std::uint64_t calls = single_copy_calls(*test.runtime);
    batch.start(stream).wait();
    batch.check_arrived();
    CHECK(single_copy_calls(*test.runtime) == calls);
    // A copy within one device crosses no link: it is not cut.
    CHECK(batch_calls(*test.runtime) == (to == Kind::foreign_device ? 1 : 3));
    CHECK(test.copier.counters().copies_direct == 1);
  }
}

TEST_CASE("consecutive ranges that adjoin on both sides are merged into one copy") {
  for (const bool has_batches : {true, false}) {
    CAPTURE(has_batches);
    const sim::Config config = batch_machine(sim::Progress::eager);
    CopyTest test(has_batches ? config : without_batches(config), small_pieces());
    const Stream stream = test.stream();
    BatchTest batch(test);
    auto& device = batch.make(Kind::device, 60'000);
    auto& pinned = batch.make(Kind::pinned, 60'000);
    batch.add_many(device, 8000, pinned, 8000, 8000, 7);
    const std::uint64_t calls = single_copy_calls(*test.runtime);
    batch.start(stream).wait();
    batch.check_arrived();
    CHECK(single_copy_calls(*test.runtime) == calls + 1);
    CHECK(batch_calls(*test.runtime) == 0);
  }
}

TEST_CASE("ranges that adjoin on one side only, or in another order, are not merged") {
  CopyTest test(without_batches(batch_machine(sim::Progress::eager)), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& device = batch.make(Kind::device, 200'000);
  auto& pinned = batch.make(Kind::pinned, 200'000);
  batch.add(device, 0, pinned, 0, 8000);
  batch.add(device, 8000, pinned, 8001, 8000);      // not on the source's side
  batch.add(device, 16'001, pinned, 16'001, 8000);  // not on the target's side
  batch.add(device, 32'001, pinned, 32'001, 8000);
  batch.add(device, 24'001, pinned, 24'001, 8000);  // the other way round
  const std::uint64_t calls = single_copy_calls(*test.runtime);
  batch.start(stream).wait();
  batch.check_arrived();
  CHECK(single_copy_calls(*test.runtime) == calls + 5);
}

TEST_CASE("adjoining ranges of two pinned allocations are copied separately") {
  Bytes memory(40 * kPage);
  unsigned char* const host = memory.data() + (kPage - address_of(memory.data()) % kPage);
  // What the first and what the second half is: page-locked by two calls, or one of them not at
  // all.
  struct Halves {
    bool first;
    bool second;
  };
  for (const Halves pinned : {Halves{true, true}, Halves{true, false}, Halves{false, true}}) {
    for (const bool to_device : {true, false}) {
      for (const std::size_t bytes : {4 * kPage, 16 * kPage}) {  // of each half
        CAPTURE(pinned.first);
        CAPTURE(pinned.second);
        CAPTURE(to_device);
        CopyTest test(batch_machine(sim::Progress::random), small_pieces());
        const Stream stream = test.stream();
        Buffer device(test, Kind::device, 2 * bytes);
        const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
        if (pinned.first) REQUIRE(sim::berth_sim_cuMemHostRegister(host, bytes, 0) == CUDA_SUCCESS);
        if (pinned.second)
          REQUIRE(sim::berth_sim_cuMemHostRegister(host + bytes, bytes, 0) == CUDA_SUCCESS);
        const Bytes content = pattern(2 * bytes, 1);
        std::vector<CopyRange> copies;
        for (std::size_t at = 0; at < 2 * bytes; at += kPage) {
          if (to_device)
            copies.push_back({device.data() + at, host + at, kPage});
          else
            copies.push_back({host + at, device.data() + at, kPage});
        }
        if (to_device)
          std::copy(content.begin(), content.end(), host);
        else
          device.write(content);
        test.copier.start_batch(copies, stream).wait();
        stream.ref().sync();
        CHECK((device.read() == content));
        CHECK(std::equal(content.begin(), content.end(), host));
        if (pinned.first) REQUIRE(sim::berth_sim_cuMemHostUnregister(host) == CUDA_SUCCESS);
        if (pinned.second)
          REQUIRE(sim::berth_sim_cuMemHostUnregister(host + bytes) == CUDA_SUCCESS);
      }
    }
  }
}

TEST_CASE("adjoining ranges of two device allocations are copied") {
  CopyTest test(batch_machine(sim::Progress::random), small_pieces());
  const Stream stream = test.stream();
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  // As many as it takes until two lie side by side.
  constexpr std::size_t kBytes = 2_MiB;
  std::vector<CUdeviceptr> made;
  CUdeviceptr first = 0;
  while (first == 0 && made.size() < 100) {
    CUdeviceptr address = 0;
    REQUIRE(sim::berth_sim_cuMemAlloc(&address, kBytes) == CUDA_SUCCESS);
    for (const CUdeviceptr other : made) {
      if (other + kBytes == address) first = other;
      if (address + kBytes == other) first = address;
    }
    made.push_back(address);
  }
  CHECK(first != 0);
  if (first != 0) {
    Buffer pinned(test, Kind::pinned, 100'000);
    const Bytes content = pattern(100'000, 1);
    pinned.write(content);
    auto* const device = reinterpret_cast<unsigned char*>(first + kBytes - 50'000);
    const CopyRange in[] = {{device, pinned.data(), 50'000},
                            {device + 50'000, pinned.data() + 50'000, 50'000}};
    test.copier.start_batch(in, stream).wait();
    pinned.write(Bytes(100'000));
    const CopyRange out[] = {{pinned.data(), device, 50'000},
                             {pinned.data() + 50'000, device + 50'000, 50'000}};
    test.copier.start_batch(out, stream).wait();
    CHECK((pinned.read() == content));
  }
  for (const CUdeviceptr address : made) REQUIRE(sim::berth_sim_cuMemFree(address) == CUDA_SUCCESS);
}

TEST_CASE("sources of a batch may be identical and may adjoin targets") {
  for (const Kind host : {Kind::pinned, Kind::pageable}) {
    CopyTest test(batch_machine(sim::Progress::random), small_pieces());
    const Stream stream = test.stream();
    BatchTest batch(test);
    auto& device = batch.make(Kind::device, 400'000);
    auto& source = batch.make(host, 100'000);
    batch.add(device, 0, source, 0, 100'000);
    batch.add(device, 100'000, source, 0, 100'000);
    batch.add(device, 200'000, source, 50'000, 50'000);
    batch.copies.push_back(
        {device.buffer.data() + 250'000, device.buffer.data() + 300'000, 50'000});
    std::copy_n(device.expected.begin() + 300'000, 50'000, device.expected.begin() + 250'000);
    batch.start(stream).wait();
    batch.check_arrived();
  }
}

TEST_CASE("thousands of ranges arrive, and ranges larger than a piece") {
  for (const Kind host : {Kind::pinned, Kind::pageable}) {
    for (const bool to_device : {true, false}) {
      CAPTURE(name_of(host));
      CAPTURE(to_device);
      CopyTest test(batch_machine(sim::Progress::random), small_pieces());
      const Stream stream = test.stream();
      BatchTest batch(test);
      auto& source = batch.make(to_device ? host : Kind::device, 2'000'000);
      auto& target = batch.make(to_device ? Kind::device : host, 2'000'000);
      for (std::size_t index = 0; index < 2000; ++index)
        batch.add(target, (2000 - index) * 201, source, index * 202, 1 + index % 200);
      batch.add(target, 1'010'000, source, 1'010'100, 500'000);
      batch.add(target, 1'520'000, source, 1'520'000, kBatchPiece + 1);
      batch.start(stream).wait();
      batch.check_arrived();
    }
  }
}

TEST_CASE(
    "small pinned targets of one contiguous device range are packed, and others copied directly" *
    needs_gates()) {
  struct Case {
    std::size_t bytes;
    std::size_t device_stride;
    bool is_packed;
  };
  for (const Case& each : {Case{4_KiB, 4_KiB, true}, Case{7_KiB, 7_KiB, true},
                           Case{7_KiB + 1, 7_KiB + 1, false}, Case{4_KiB, 4_KiB + 1, false}}) {
    for (const bool to_device : {true, false}) {
      CAPTURE(each.bytes);
      CAPTURE(to_device);
      CopyTest test(batch_machine(sim::Progress::random), small_pieces());
      const Stream stream = test.stream();
      BatchTest batch(test);
      auto& pinned = batch.make(Kind::pinned, 2'000'000);
      auto& device = batch.make(Kind::device, 2'000'000);
      if (to_device)
        batch.add_many(device, each.device_stride, pinned, each.bytes + 100, each.bytes, 200);
      else
        batch.add_many(pinned, each.bytes + 100, device, each.device_stride, each.bytes, 200);
      const std::uint64_t calls = single_copy_calls(*test.runtime);
      batch.start(stream).wait();
      batch.check_arrived();
      const CopyCounters counters = test.copier.counters();
      const bool is_packed = each.is_packed && !to_device;
      CHECK(counters.copies_staged == (is_packed ? 1 : 0));
      CHECK(counters.copies_direct == (is_packed ? 0 : 1));
      if (!is_packed) continue;
      // Whole slots of them leave in one call.
      const std::size_t slots = (batch.total + kBatchPiece - 1) / kBatchPiece;
      CHECK(single_copy_calls(*test.runtime) - calls <= slots + slots / 2);
      CHECK(batch_calls(*test.runtime) == 0);
    }
  }
}

TEST_CASE("options decide which ranges are packed, and whether batches are driver calls" *
          needs_gates()) {
  struct Case {
    std::size_t packed_max;
    std::optional<std::size_t> batched_min;
    bool is_batched;
    bool is_packed;
  };
  for (const Case& each : {Case{0, 0, true, false}, Case{0, std::nullopt, false, false},
                           Case{9_KiB - 1, 0, true, false}, Case{9_KiB, 0, true, true},
                           Case{9_KiB, std::nullopt, false, true}, Case{0, 9_KiB, true, false},
                           Case{0, 9_KiB + 1, false, false}}) {
    CAPTURE(each.packed_max);
    CAPTURE(each.batched_min.value_or(~std::size_t{0}));
    CopierOptions options = small_pieces();
    options.packed_range_bytes_max = each.packed_max;
    options.batched_range_bytes_min = each.batched_min;
    CopyTest test(batch_machine(sim::Progress::random), options);
    const Stream stream = test.stream();
    BatchTest batch(test);
    auto& pinned = batch.make(Kind::pinned, 1'000'000);
    auto& device = batch.make(Kind::device, 1'000'000);
    auto& pageable = batch.make(Kind::pageable, 1'000'000);
    batch.add_many(pinned, 9_KiB + 100, device, 9_KiB, 9_KiB, 50);
    batch.add(device, 600'000, pageable, 0, 3000);
    batch.add(device, 700'000, pageable, 5000, 3000);
    batch.start(stream).wait();
    batch.check_arrived();
    CHECK(test.copier.counters().copies_direct == (each.is_packed ? 0 : 1));
    CHECK((batch_calls(*test.runtime) > 0) == each.is_batched);
  }
}

TEST_CASE("only ranges of the minimum size or more share a driver call" * needs_gates()) {
  CopierOptions options;
  options.batched_range_bytes_min = 4_KiB;
  options.packed_range_bytes_max = 0;
  CopyTest test(batch_machine(sim::Progress::random), options);
  const Stream stream = test.stream();
  BatchTest batch(test);
  const auto add = [&](Kind kind, std::size_t bytes, std::size_t count) {
    auto& target = batch.make(Kind::device, 200'000);
    batch.add_many(target, 5_KiB, batch.make(kind, 200'000), 6_KiB, bytes, count);
  };
  add(Kind::pinned, 4_KiB, 20);
  add(Kind::pinned, 4_KiB - 1, 7);
  add(Kind::pageable, 4_KiB, 20);
  add(Kind::pageable, 4_KiB - 1, 9);
  const std::uint64_t singles = single_copy_calls(*test.runtime);
  batch.start(stream).wait();
  batch.check_arrived();
  CHECK(batch_calls(*test.runtime) == 2);  // pinned, and from a slot of staging memory
  CHECK(single_copy_calls(*test.runtime) - singles == 7 + 9);
}

TEST_CASE("a batch is counted once for each path that its ranges take" * needs_gates()) {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& device = batch.make(Kind::device, 1'000'000);
  auto& pinned = batch.make(Kind::pinned, 1'000'000);
  auto& pageable = batch.make(Kind::pageable, 1'000'000);
  auto& other = batch.make(Kind::pageable, 1'000'000);
  for (std::size_t index = 0; index < 5; ++index) {
    batch.add(device, index * 20'000, pinned, index * 21'000, 20'000 - 1);
    batch.add(device, 200'000 + index * 20'000, pageable, index * 20'000, 20'000 - 1);
    batch.add(other, index * 20'000, pageable, 300'000 + index * 20'000, 20'000 - 1);
  }
  batch.start(stream).wait();
  batch.check_arrived();
  const CopyCounters counters = test.copier.counters();
  CHECK(counters.copies_direct == 1);
  CHECK(counters.copies_staged == 1);
  CHECK(counters.copies_host == 1);
  CHECK(counters.copies_by_driver == 0);
  CHECK(counters.bytes_copied == batch.total);
}

TEST_CASE("on the legacy default stream a batch arrives, by single copies") {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(1));
  BatchTest batch(test);
  add_mixture(batch, 1);
  batch.start(legacy).wait();
  batch.check_arrived();
  CHECK(batch_calls(*test.runtime) == 0);
}

TEST_CASE("on a captured stream each copy of a batch is a node of the graph") {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& device = batch.make(Kind::device, 1'000'000);
  auto& pinned = batch.make(Kind::pinned, 1'000'000);
  auto& peer = batch.make(Kind::peer, 1'000'000);
  batch.add(device, 0, pinned, 0, 100'000);  // more than a piece
  batch.add(device, 200'000, pinned, 300'000, 1000);
  batch.add(device, 300'000, peer, 300'000, 1000);
  batch.add(pinned, 600'000, device, 600'000, 1000);
  const Bytes device_before = device.buffer.read();
  begin_capture(stream);
  CHECK(batch.start(stream).is_done());
  const CapturedGraph graph(stream);
  CHECK(graph.nodes() == 4);
  CHECK((device.buffer.read() == device_before));
  graph.launch();
  stream.ref().sync();
  batch.check_arrived();
  CHECK(batch_calls(*test.runtime) == 0);
}

TEST_CASE(
    "on a captured stream a batch is refused as a whole where the host would copy one of it") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 100'000);
  Buffer pinned(test, Kind::pinned, 100'000);
  Buffer pageable(test, Kind::pageable, 100'000);
  Buffer other(test, Kind::pageable, 100'000);
  const CopyRange fine = {device.data(), pinned.data(), 1000};
  for (const CopyRange by_host : {CopyRange{device.data() + 5000, pageable.data(), 1000},
                                  CopyRange{pageable.data(), device.data() + 5000, 1000},
                                  CopyRange{other.data(), pageable.data(), 1000}}) {
    for (const bool is_last : {true, false}) {
      const std::vector<CopyRange> copies =
          is_last ? std::vector{fine, by_host} : std::vector{by_host, fine};
      const Bytes before = other.read();
      begin_capture(stream);
      message_of<StreamCaptured>([&] { test.copier.start_batch(copies, stream); });
      const CapturedGraph graph(stream);
      CHECK(graph.nodes() == 0);
      CHECK((other.read() == before));
    }
  }
  CHECK(test.copier.counters().bytes_copied == 0);
  test.copier.start_batch({&fine, 1}, stream).wait();
}

}  // namespace batch_test
