// SPDX-License-Identifier: Apache-2.0
// What collective copies refuse, before anything is submitted.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "copy/collectives_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"

namespace collectives_refusals_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 3000;

/// A source on cuda:0 and shards of a third each on the other devices.
struct Machine : CollectiveTest {
  Machine() : CollectiveTest(with(sim::Progress::manual)) {
    source.write(pattern(kBytes, 1));
    for (const Memory& shard : shards) copier.fill_async(shard.data(), 9, shard.bytes(), on(0));
  }
  explicit Machine(int) : CollectiveTest(with(sim::Progress::manual)) {}

  [[nodiscard]] std::vector<Shard> parts() const { return shards_of(shards); }

  /// What scatter, gather and broadcast of these say, all of them.
  std::vector<std::string> refusals(void* whole, std::size_t bytes, StreamRef stream,
                                    const std::vector<Shard>& parts) {
    return {message_of<InvalidArgument>(
                [&] { return collectives.scatter(whole, bytes, stream, parts); }),
            message_of<InvalidArgument>(
                [&] { return collectives.gather(whole, bytes, stream, parts); }),
            message_of<InvalidArgument>(
                [&] { return collectives.broadcast(whole, bytes, stream, parts); })};
  }
  void refused(void* whole, std::size_t bytes, StreamRef stream, const std::vector<Shard>& parts,
               const std::vector<std::string>& words) {
    for (const std::string& message : refusals(whole, bytes, stream, parts)) {
      CAPTURE(message);
      CHECK(contains(message, "accepted: "));
      for (const std::string& word : words) CHECK(contains(message, word));
    }
  }

  Memory source{*this, Place::on(0), kBytes, on(0)};
  std::vector<Memory> shards = memory_at(*this, {Place::on(1), Place::on(2), Place::on(3)},
                                         {kBytes / 3, kBytes / 3, kBytes / 3});
};

}  // namespace

TEST_CASE("invalid arguments are refused by name, and nothing is submitted") {
  Machine test(0);
  test.source.write(pattern(kBytes, 1));
  const std::uint64_t copies = driver_calls(*test.runtime, "cuMemcpyPeerAsync");
  void* const whole = test.source.data();
  const StreamRef stream = test.on(0);
  constexpr std::size_t kPart = kBytes / 3;

  test.refused(whole, kBytes, stream, {}, {"without"});
  test.refused(nullptr, kPart, stream, {test.parts()[0]}, {"null"});
  test.refused(reinterpret_cast<void*>(UINTPTR_MAX - 10), kPart, stream, {test.parts()[0]},
               {"wrap around"});
  test.refused(whole, kPart, stream, {{nullptr, kPart, test.on(1)}}, {" 0 of a ", "null"});
  test.refused(whole, kPart, stream, {{test.parts()[0].data, kPart, test.on(2)}},
               {" 0 of a ", "cuda:1", "cuda:2"});
  test.refused(whole, kPart, test.on(3), {test.parts()[0]}, {"cuda:0", "cuda:3"});
  test.refused(whole, kPart, stream, {{test.source.data() + kPart - 1, kPart, stream}},
               {"overlap"});
  for (const std::size_t bytes : {kBytes - 1, kBytes + 1, std::size_t{0}, SIZE_MAX}) {
    CAPTURE(bytes);
    test.refused(whole, bytes, stream, test.parts(), {std::to_string(bytes)});
  }
  test.refused(whole, kBytes, stream,
               {{test.shards[0].data(), SIZE_MAX, test.on(1)},
                {test.shards[1].data(), kBytes + 1, test.on(2)}},
               {"3000"});

  CHECK(driver_calls(*test.runtime, "cuMemcpyPeerAsync") == copies);
  CHECK(driver_calls(*test.runtime, "cuStreamWaitEvent") == 0);
  test.collectives.scatter(whole, kBytes, stream, test.parts()).wait();
  CHECK((test.shards[2].read() == part_of(pattern(kBytes, 1), 2 * kPart, kPart)));
  test.sync_all();
}

TEST_CASE("targets must not overlap, but sources may") {
  Machine test(0);
  const Memory twice(test, Place::on(1), kBytes, test.on(1));
  const std::vector<Shard> parts = {{twice.data(), kBytes / 2, test.on(1)},
                                    {test.shards[1].data(), 0, test.on(2)},
                                    {twice.data() + 1, kBytes / 2, test.on(1)}};
  const std::string message = message_of<InvalidArgument>(
      [&] { return test.collectives.scatter(test.source.data(), kBytes, test.on(0), parts); });
  CHECK(contains(message, "target 0"));
  CHECK(contains(message, "target 2"));
  message_of<InvalidArgument>([&] {
    return test.collectives.broadcast(
        test.source.data(), kBytes / 2, test.on(0),
        {{twice.data() + 1, kBytes / 2, test.on(1)}, {twice.data(), kBytes / 2, test.on(1)}});
  });
  test.collectives.gather(test.source.data(), kBytes, test.on(0), parts).wait();
  CHECK((test.source.read() == Bytes(kBytes, 0xC3)));
  test.sync_all();
}

TEST_CASE("host memory on both sides is refused, and a host shard takes the device's stream") {
  Machine test(0);
  const Memory pinned(test, Place::pinned(), kBytes, test.on(0));
  const Memory pageable(test, Place::pageable(), kBytes, test.on(0));
  test.refused(pinned.data(), kBytes, test.on(0), {{pageable.data(), kBytes, test.on(0)}},
               {"host memory"});
  test.refused(test.source.data(), kBytes, test.on(0), {{pageable.data(), kBytes, test.on(1)}},
               {"cuda:0", "cuda:1"});
  test.source.write(pattern(kBytes, 2));
  test.collectives
      .scatter(test.source.data(), kBytes, test.on(0), {{pageable.data(), kBytes, test.on(0)}})
      .wait();
  CHECK((pageable.read() == pattern(kBytes, 2)));
}

TEST_CASE("a collective copy of 0 bytes is a no-op, and empty shards are skipped") {
  Machine test(0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const Transfer transfer =
      test.collectives.broadcast(nullptr, 0, test.on(0), {{nullptr, 0, test.on(3)}});
  CHECK(transfer.is_done());
  CHECK(transfer.bytes() == 0);
  CHECK(driver_calls(*test.runtime) == calls);
  test.source.write(pattern(kBytes, 2));
  test.collectives
      .scatter(test.source.data(), kBytes / 3, test.on(0),
               {{nullptr, 0, test.on(3)}, test.parts()[0], {nullptr, 0, test.on(2)}})
      .wait();
  CHECK((test.shards[0].read() == part_of(pattern(kBytes, 2), 0, kBytes / 3)));
}

TEST_CASE("on a captured stream a collective copy is refused, and the capture goes on") {
  for (const int captured : {0, 2}) {
    CAPTURE(captured);
    Machine test(0);
    const Bytes before = test.shards[0].read();
    begin_capture(test.on(captured));
    for (const bool scatters : {true, false}) {
      const std::string message = message_of<StreamCaptured>([&] {
        return scatters
                   ? test.collectives.scatter(test.source.data(), kBytes, test.on(0), test.parts())
                   : test.collectives.gather(test.source.data(), kBytes, test.on(0), test.parts());
      });
      CHECK(contains(message, "cuda:" + std::to_string(captured)));
    }
    const CapturedGraph graph(test.on(captured));
    CHECK(graph.nodes() == 0);
    CHECK((test.shards[0].read() == before));
    test.collectives.scatter(test.source.data(), kBytes, test.on(0), test.parts()).wait();
    test.sync_all();
  }
}

}  // namespace collectives_refusals_test
