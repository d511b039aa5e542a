// SPDX-License-Identifier: Apache-2.0
// Collective copies: every byte arrives, in stream order, and one Transfer covers the whole copy.
#include "berth/collectives.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "copy/collectives_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace collectives_test {

using namespace berth;
using namespace berth::test;

namespace {

using sim::Progress;

constexpr std::size_t kPiece = CollectiveTest::kPiece;
constexpr std::size_t kLarge = 10 * kPiece + 17;

/// Each order that work may run in, with and without access between devices.
template <class Check>
void in_every_order(const Check& check) {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    for (const Progress progress : {Progress::eager, Progress::manual, Progress::timed})
      check(CollectiveTest::with(progress, 4, peer));
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed);
      check(CollectiveTest::with(Progress::random, 4, peer, seed));
    }
  }
}

/// The whole's places, with the shards' that go with each.
const std::vector<std::pair<Place, std::vector<Place>>> kPlaces = {
    {Place::on(0), {Place::on(1), Place::on(2), Place::on(3)}},
    {Place::on(2), {Place::on(3), Place::on(2), Place::on(0), Place::on(1), Place::on(0)}},
    {Place::on(0), {Place::pinned(), Place::on(1), Place::pageable(), Place::on(3)}},
    {Place::pinned(), {Place::on(0), Place::on(1), Place::on(2), Place::on(3)}},
    {Place::pageable(), {Place::on(3), Place::on(1), Place::on(0)}},
    {Place::pageable(), {Place::on(2), Place::on(2)}},
};

int stream_of(Place whole) {
  return whole.is_host() ? 1 : whole.device;
}

/// A row of sizes that are no multiples of anything, one of them 0.
std::vector<std::size_t> uneven(std::size_t count) {
  std::vector<std::size_t> bytes;
  for (std::size_t part = 0; part < count; ++part)
    bytes.push_back(part == 1 ? 0 : 1 + part * (kPiece + 41));
  return bytes;
}

}  // namespace

TEST_CASE("a scatter distributes ranges to the shards, and a gather collects them") {
  in_every_order([](const sim::Config& config) {
    for (const auto& combination : kPlaces) {
      const auto& whole = combination.first;
      const auto& places = combination.second;
      CAPTURE(whole.name());
      CollectiveTest test(config);
      const std::vector<std::size_t> bytes = uneven(places.size());
      const Bytes content = pattern(total(bytes), 3);
      Memory source(test, whole, content.size(), test.on(stream_of(whole)));
      Memory back(test, whole, content.size(), test.on(stream_of(whole)));
      source.write(content);
      const std::vector<Memory> shards = memory_at(test, places, bytes, stream_of(whole));
      const Transfer there = test.collectives.scatter(source.data(), content.size(),
                                                      source.stream(), shards_of(shards));
      there.wait();  // a pageable source is read before its stream gets there
      const Transfer here =
          test.collectives.gather(back.data(), content.size(), back.stream(), shards_of(shards));
      here.wait();
      CHECK(there.is_done());
      CHECK(there.bytes() == content.size());
      CHECK(here.bytes_done() == content.size());
      std::size_t offset = 0;
      for (const Memory& shard : shards) {
        CHECK((shard.read() == part_of(content, offset, shard.bytes())));
        CHECK(shard.guards_hold());
        offset += shard.bytes();
      }
      CHECK((back.read() == content));
      CHECK((source.read() == content));
      CHECK(back.guards_hold());
      test.sync_all();
    }
  });
}

TEST_CASE("a broadcast copies all bytes to each shard, with and without forwarding") {
  Thinned thinned(5);
  in_every_order([&](const sim::Config& config) {
    for (const auto& combination : kPlaces) {
      const auto& whole = combination.first;
      const auto& places = combination.second;
      for (const std::size_t size : {std::size_t{1}, 3 * kPiece / 2, 3 * kPiece / 2 + 1, kLarge}) {
        if (thinned.skips()) continue;
        CAPTURE(whole.name());
        CAPTURE(size);
        CollectiveTest test(config);
        const Bytes content = pattern(size, 4);
        Memory source(test, whole, size, test.on(stream_of(whole)));
        source.write(content);
        const std::vector<Memory> shards = memory_at(
            test, places, std::vector<std::size_t>(places.size(), size), stream_of(whole));
        const Transfer transfer =
            test.collectives.broadcast(source.data(), size, source.stream(), shards_of(shards));
        transfer.wait();
        CHECK(transfer.failure() == nullptr);
        CHECK(transfer.bytes() == size * places.size());
        CHECK(transfer.bytes_done() == transfer.bytes());
        for (const Memory& shard : shards) {
          CHECK((shard.read() == content));
          CHECK(shard.guards_hold());
        }
        CHECK((source.read() == content));
        CHECK(test.copier.counters().bytes_copied == transfer.bytes());
        test.sync_all();
      }
    }
  });
}

// The simulated driver reports each pair of uses that nothing orders, whatever order they ran in.
TEST_CASE("a collective copy runs after earlier work of its streams and before later work") {
  in_every_order([](const sim::Config& config) {
    for (const Place whole : {Place::on(0), Place::pinned()}) {
      for (const std::size_t size : {kPiece, kLarge}) {
        CAPTURE(whole.name());
        CAPTURE(size);
        CollectiveTest test(config);
        const StreamRef own = test.on(stream_of(whole));
        Memory first(test, Place::pinned(), size, own);
        first.write(pattern(size, 5));
        Memory source(test, whole.is_host() ? Place::pinned() : whole, size, own);
        Memory staging(test, Place::on(stream_of(whole)), size, own);
        const std::vector<Memory> shards =
            memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {size, size, size});
        std::vector<Memory> back;
        for (const Memory& shard : shards) {
          test.copier.fill_async(shard.data(), 9, size, shard.stream());
          back.emplace_back(test, Place::pinned(), size, shard.stream());
        }
        // The source is written in stream order, and overwritten right after.
        test.copier.copy_async(staging.data(), first.data(), size, own);
        test.copier.copy_async(source.data(), staging.data(), size, own);
        test.collectives.broadcast(source.data(), size, own, shards_of(shards));
        test.copier.fill_async(staging.data(), 7, size, own);
        test.copier.copy_async(source.data(), staging.data(), size, own);
        for (std::size_t index = 0; index < shards.size(); ++index) {
          const StreamRef stream = shards[index].stream();
          test.copier.copy_async(back[index].data(), shards[index].data(), size, stream);
          test.copier.fill_async(shards[index].data(), 3, size, stream);
        }
        test.sync_all();
        for (const Memory& copy : back) CHECK((copy.read() == pattern(size, 5)));
        for (const Memory& shard : shards) CHECK((shard.read() == Bytes(size, 3)));
        CHECK((source.read() == Bytes(size, 7)));
      }
    }
  });
}

TEST_CASE("later work may write the sources of a gather, and read its target") {
  in_every_order([](const sim::Config& config) {
    CollectiveTest test(config);
    Memory target(test, Place::on(0), 3 * kLarge, test.on(0));
    Memory back(test, Place::pinned(), 3 * kLarge, test.on(0));
    const std::vector<Memory> shards =
        memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {kLarge, kLarge, kLarge});
    test.copier.fill_async(target.data(), 8, target.bytes(), test.on(0));
    for (const Memory& shard : shards)
      test.copier.fill_async(shard.data(), 5, kLarge, shard.stream());
    test.collectives.gather(target.data(), target.bytes(), test.on(0), shards_of(shards));
    test.copier.copy_async(back.data(), target.data(), target.bytes(), test.on(0));
    for (const Memory& shard : shards)
      test.copier.fill_async(shard.data(), 6, kLarge, shard.stream());
    test.sync_all();
    CHECK((back.read() == Bytes(3 * kLarge, 5)));
  });
}

TEST_CASE("a call returns at once with work pending, and its stream contains the complete copy") {
  for (const Place whole : {Place::on(0), Place::pinned()}) {
    CAPTURE(whole.name());
    CollectiveTest test(CollectiveTest::with(Progress::manual));
    Memory source(test, whole, kLarge, test.on(0));
    const std::vector<Memory> shards =
        memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {kLarge, kLarge, kLarge});
    test.log.submit(test.on(0), "earlier");
    test.log.submit(test.on(3), "earlier on a shard's");
    const Transfer transfer =
        test.collectives.broadcast(source.data(), kLarge, test.on(0), shards_of(shards));
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK_FALSE(test.log.is_done("earlier on a shard's"));
    CHECK_FALSE(transfer.is_done());
    CHECK(transfer.bytes_done() == 0);
    CHECK(transfer.bytes() == 3 * kLarge);
    test.on(0).sync();
    CHECK(transfer.is_done());
    CHECK(transfer.bytes_done() == 3 * kLarge);
  }
}

TEST_CASE("each device of a broadcast forwards a piece as soon as it has received it") {
  CollectiveTest test(CollectiveTest::with(Progress::manual));
  const std::size_t piece = kPiece + kPiece / 2;
  Memory source(test, Place::on(0), 8 * piece, test.on(0));
  const Bytes content = pattern(8 * piece, 1);
  source.write(content);
  const std::vector<Memory> shards =
      memory_at(test, {Place::on(1), Place::on(2)}, {8 * piece, 8 * piece});
  test.collectives.broadcast(source.data(), 8 * piece, test.on(0), shards_of(shards));
  test.run_stream(test.on(0));  // to where it waits for the others
  // One piece of the first: its wait for the source, the copy, the mark.
  for (int step = 0; step < 3; ++step) CHECK(test.run_next(test.on(1)));
  test.run_stream(test.on(2));
  CHECK((part_of(shards[1].read(), 0, piece) == part_of(content, 0, piece)));
  CHECK((part_of(shards[1].read(), piece, piece) != part_of(content, piece, piece)));
  test.sync_all();
  CHECK((shards[1].read() == content));
}

TEST_CASE("devices with peer access each read only a part from the host") {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    CollectiveTest test(CollectiveTest::with(Progress::eager, 4, peer));
    Memory source(test, Place::pinned(), kLarge, test.on(0));
    const std::vector<Memory> shards =
        memory_at(test, {Place::on(0), Place::on(1), Place::on(2), Place::on(3)},
                  {kLarge, kLarge, kLarge, kLarge});
    test.collectives.broadcast(source.data(), kLarge, test.on(0), shards_of(shards));
    test.sync_all();
    // From the host in pieces of the copier's: each device its part, or everything.
    const std::size_t fetched = peer ? kLarge / 4 + 512 : kLarge;
    CHECK(driver_calls(*test.runtime, "cuMemcpyAsync") == 4 * ((fetched + kPiece - 1) / kPiece));
    CHECK((driver_calls(*test.runtime, "cuMemcpyPeerAsync") > 0) == peer);
  }
}

TEST_CASE("access is enabled once, and only between devices that copy") {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    CollectiveTest test(CollectiveTest::with(Progress::eager, 4, peer));
    Memory source(test, Place::on(0), kLarge, test.on(0));
    const std::vector<Memory> shards =
        memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {kLarge, kLarge, kLarge});
    const auto enabled = [&] { return driver_calls(*test.runtime, "cuCtxEnablePeerAccess"); };
    for (int round = 0; round < 2; ++round) {
      test.collectives.broadcast(source.data(), kLarge, test.on(0), shards_of(shards));
      CHECK(enabled() == 3);
    }
    test.copier.copy_async(shards[0].data(), source.data(), kLarge, test.on(1));
    test.copier.copy_async(source.data(), shards[0].data(), kLarge, test.on(1));
    test.sync_all();
    const std::uint64_t after_copies = enabled();
    CHECK(after_copies <= 4);
    test.copier.copy_async(source.data(), shards[0].data(), kLarge, test.on(0));
    CHECK(enabled() == after_copies + 1);
    // Asking costs calls even where nothing is to be done.
    const auto prepared = [&] {
      return driver_calls(*test.runtime, "cuThreadExchangeStreamCaptureMode");
    };
    const std::uint64_t prepared_once = prepared();
    test.copier.copy_async(source.data(), shards[0].data(), kLarge, test.on(0));
    CHECK(prepared() == prepared_once);
    test.sync_all();
  }
}

TEST_CASE("peer access that the program has enabled itself causes no failure") {
  CollectiveTest test(CollectiveTest::with(Progress::eager, 2));
  Memory source(test, Place::on(0), kLarge, test.on(0));
  const Memory shard(test, Place::on(1), kLarge, test.on(1));
  const Bytes content = pattern(kLarge, 2);
  source.write(content);
  CUcontext owner = nullptr;
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuCtxGetCurrent(&owner) == CUDA_SUCCESS);
  }
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(1));
    REQUIRE(sim::berth_sim_cuCtxEnablePeerAccess(owner, 0) == CUDA_SUCCESS);
  }
  test.collectives.broadcast(source.data(), kLarge, test.on(0), {shard.shard()}).wait();
  CHECK((shard.read() == content));
}

TEST_CASE("on_done is called once after the whole copy, and owners are kept until then") {
  for (const Place whole : {Place::on(0), Place::pinned(), Place::pageable()}) {
    for (const std::size_t size : {std::size_t{0}, kLarge}) {
      CAPTURE(whole.name());
      CAPTURE(size);
      CollectiveTest test(CollectiveTest::with(Progress::manual));
      Memory source(test, whole, size, test.on(0));
      const std::vector<Memory> shards =
          memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {size, size, size});
      auto owner = std::make_shared<int>(1);
      const std::weak_ptr<int> kept = owner;
      std::atomic<int> told = 0;
      std::atomic<bool> was_well = false;
      const Transfer transfer = test.collectives.broadcast(
          source.data(), size, test.on(0), shards_of(shards),
          {.keep_alive = std::exchange(owner, nullptr), .on_done = [&](std::exception_ptr failure) {
             was_well = failure == nullptr && !kept.expired();
             ++told;
           }});
      if (size > 0) CHECK_FALSE(kept.expired());
      transfer.wait();
      test.runtime->completions().finish();
      CHECK(told == 1);
      CHECK(was_well);
      CHECK(kept.expired());
      test.sync_all();
    }
  }
}

TEST_CASE("a cancelled collective copy through the host ends early, and its streams continue" *
          needs_gates()) {
  CollectiveTest test(CollectiveTest::with(Progress::manual));
  constexpr std::size_t kHuge = 40 * kPiece;
  const Bytes content = pattern(3 * kHuge, 1);
  const std::vector<Memory> shards =
      memory_at(test, {Place::on(1), Place::on(2), Place::on(3)}, {kHuge, kHuge, kHuge});
  for (const bool scatters : {true, false}) {
    Transfer transfer =
        scatters
            ? test.collectives.scatter(content.data(), 3 * kHuge, test.on(0), shards_of(shards))
            : test.collectives.broadcast(content.data(), kHuge, test.on(0), shards_of(shards));
    transfer.cancel();
    message_of<Cancelled>([&] { transfer.wait(); });
    CHECK(transfer.is_done());
    test.sync_all();
  }
  test.collectives.broadcast(content.data(), kHuge, test.on(0), shards_of(shards)).wait();
  for (const Memory& shard : shards) CHECK((shard.read() == part_of(content, 0, kHuge)));
}

TEST_CASE("a piece size larger than any memory gives one piece") {
  constexpr std::size_t kTwoThirds = (SIZE_MAX / 3 * 2 / 4096 + 1) * 4096;
  for (const std::size_t piece : {kTwoThirds, SIZE_MAX / 4096 * 4096}) {
    CollectiveTest test(CollectiveTest::with(Progress::eager), piece);
    const Bytes content = pattern(kLarge, 3);
    Memory source(test, Place::on(0), kLarge, test.on(0));
    source.write(content);
    const std::vector<Memory> shards =
        memory_at(test, {Place::on(1), Place::on(2)}, {kLarge, kLarge});
    test.collectives.broadcast(source.data(), kLarge, test.on(0), shards_of(shards)).wait();
    for (const Memory& shard : shards) CHECK((shard.read() == content));
    CHECK(driver_calls(*test.runtime, "cuMemcpyPeerAsync") == 2);
    test.sync_all();
  }
}

TEST_CASE("collective copies run on default streams") {
  for (const bool per_thread : {false, true}) {
    CAPTURE(per_thread);
    CollectiveTest test(CollectiveTest::with(Progress::random));
    const auto on = [&](int device) {
      return per_thread ? test.runtime->per_thread_default_stream(Device::cuda(device))
                        : test.runtime->default_stream(Device::cuda(device));
    };
    const Bytes content = pattern(kLarge, 1);
    Memory source(test, Place::on(0), kLarge, test.on(0));
    source.write(content);
    std::vector<Memory> memory =
        memory_at(test, {Place::on(1), Place::on(2), Place::on(0)}, {kLarge, kLarge, kLarge});
    test.sync_all();
    const std::vector<Shard> shards = {{memory[0].data(), kLarge, on(1)},
                                       {memory[1].data(), kLarge, on(2)},
                                       {memory[2].data(), kLarge, on(0)}};
    test.collectives.broadcast(source.data(), kLarge, on(0), shards).wait();
    for (const Memory& shard : memory) CHECK((shard.read() == content));
    for (const int device : {0, 1, 2}) on(device).sync();
  }
}

TEST_CASE("in a forked child a collective copy is refused") {
  CollectiveTest test(CollectiveTest::with(Progress::eager, 2));
  Memory source(test, Place::on(0), kLarge, test.on(0));
  const Memory shard(test, Place::on(1), kLarge, test.on(1));
  CHECK(exit_code_of([&] {
          const bool refused = is_refused_after_fork([&] {
            test.collectives.broadcast(source.data(), kLarge, test.on(0), {shard.shard()});
          });
          std::_Exit(refused ? 7 : 1);
          return 2;
        }) == 7);
}

}  // namespace collectives_test
