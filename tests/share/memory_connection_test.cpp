// SPDX-License-Identifier: Apache-2.0
// Blocks over a connection with both ends in one process: what arrives, what is returned, who owns
// what. shared_processes_test.cpp has several processes.
#include <chrono>
#include <optional>
#include <thread>

#include "share/share_fixture.hpp"

namespace memory_connection_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

TEST_CASE("both sides read and write a shared block, which is then returned") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  Allocation block = test.pool.allocate(3_MiB, test.stream);
  void* const data = block.data();
  test.fill(data, 7, 3_MiB);

  giver.share(test.pool, std::move(block));
  CHECK_FALSE(bool(block));
  CHECK(giver.blocks_shared() == 1);
  std::vector<SharedBlock> received = taker.receive(10s);
  REQUIRE(received.size() == 1);
  CHECK(received[0].bytes() == 3_MiB);
  CHECK(received[0].device() == Device::cuda(0));
  CHECK(received[0].data() != data);
  CHECK(test.has(received[0].data(), 7, 3_MiB));
  test.fill(received[0].data(), 8, 3_MiB);
  CHECK(test.has(data, 8, 3_MiB));

  CHECK(giver.reclaim() == 0);
  CHECK(test.blocks_live() == 1);
  received.clear();
  CHECK(test.blocks_live() == 1);  // until it is reclaimed
  CHECK(giver.reclaim() == 1);
  CHECK(giver.blocks_shared() == 0);
  CHECK(test.blocks_live() == 0);
  CHECK(taker.receive().empty());
}

TEST_CASE("many blocks arrive in their order, and each segment is mapped once") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  std::vector<Allocation> blocks = test.blocks(3000, 100'000);
  std::vector<void*> data;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    data.push_back(blocks[i].data());
    test.fill(blocks[i].data(), std::uint8_t(i % 251), 100);
  }
  const std::uint64_t segments = driver_calls(*test.runtime, "cuMemMap");

  giver.share(test.pool, blocks);
  std::vector<SharedBlock> received;
  while (received.size() < 3000) {
    std::vector<SharedBlock> more = taker.receive(10s);
    REQUIRE_FALSE(more.empty());
    std::move(more.begin(), more.end(), std::back_inserter(received));
  }
  int wrong = 0;
  for (std::size_t i = 0; i < received.size(); ++i)
    wrong +=
        received[i].bytes() == 100'000 && test.has(received[i].data(), std::uint8_t(i % 251), 100)
            ? 0
            : 1;
  CHECK(wrong == 0);
  CHECK(driver_calls(*test.runtime, "cuMemMap") == 2 * segments);
  received.clear();
  CHECK(driver_calls(*test.runtime, "cuMemUnmap") == segments);
  std::size_t freed = 0;
  while (giver.blocks_shared() > 0) {
    freed += giver.reclaim();
    CHECK(taker.receive().empty());  // returns what the other end had no room for
  }
  CHECK(freed == 3000);
  test.pool.validate();
}

TEST_CASE("both ends share and return blocks repeatedly") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection a = test.connect(sockets.take(0));
  MemoryConnection b = test.connect(sockets.take(1));
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    a.share(test.pool, test.pool.allocate(1_MiB, test.stream));
    b.share(test.pool, test.pool.allocate(2_MiB, test.stream));
    const std::vector<SharedBlock> at_b = b.receive(10s);
    const std::vector<SharedBlock> at_a = a.receive(10s);
    REQUIRE(at_a.size() == 1);
    REQUIRE(at_b.size() == 1);
    CHECK(at_b[0].bytes() == 1_MiB);
    CHECK(at_a[0].bytes() == 2_MiB);
    a.reclaim();
    b.reclaim();
  }
  a.reclaim();
  b.reclaim();
  CHECK(test.blocks_live() == 0);
  CHECK(test.simulator.calls("cuMemCreate") == 1);
}

TEST_CASE("returned blocks that are not reclaimed yet are not mistaken for later ones") {
  for (const bool is_ended : {false, true}) {
    CAPTURE(is_ended);
    ShareTest test;
    SocketPair sockets;
    std::optional<MemoryConnection> giver(test.connect(sockets.take(0)));
    MemoryConnection taker = test.connect(sockets.take(1));
    std::vector<SharedBlock> kept;
    for (int round = 0; round < 3; ++round) {
      giver->share(test.pool, test.pool.allocate(1_MiB, test.stream));
      std::vector<SharedBlock> received = taker.receive(10s);
      REQUIRE(received.size() == 1);
      if (is_ended && round == 2) kept = std::move(received);
    }
    CHECK(giver->blocks_shared() == 3);
    CHECK(test.blocks_live() == 3);
    if (is_ended) {
      giver.reset();
    } else {
      CHECK(giver->reclaim() == 3);
    }
    CHECK(test.blocks_live() == 0);
  }
}

TEST_CASE("closing one side frees its blocks and keeps those that it received") {
  const std::ptrdiff_t before = descriptors_open();
  {
    ShareTest test;
    SocketPair sockets;
    auto giver = std::make_unique<MemoryConnection>(test.connect(sockets.take(0)));
    auto taker = std::make_unique<MemoryConnection>(test.connect(sockets.take(1)));
    std::vector<Allocation> blocks = test.blocks(5, 1_MiB);
    test.fill(blocks[0].data(), 9, 1_MiB);
    giver->share(test.pool, blocks);
    std::vector<SharedBlock> received = taker->receive(10s);
    REQUIRE(received.size() == 5);

    taker.reset();
    CHECK(test.has(received[0].data(), 9, 1_MiB));
    CHECK(giver->reclaim() == 0);  // they are still in use
    CHECK(giver->is_open());
    received.resize(2);
    CHECK(giver->reclaim() == 3);
    received.clear();
    CHECK(giver->reclaim() == 2);
    CHECK_FALSE(giver->is_open());
    CHECK(test.blocks_live() == 0);
  }
  CHECK(descriptors_open() == before);
}

TEST_CASE("a connection destroyed with shared blocks frees and reports them") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection taker = test.connect(sockets.take(1));
  std::vector<SharedBlock> received;
  {
    MemoryConnection giver = test.connect(sockets.take(0));
    giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
    received = taker.receive(10s);
    REQUIRE(received.size() == 1);
  }
  CHECK(test.blocks_live() == 0);
  const std::vector<Report> reports = test.reports.all();
  REQUIRE(reports.size() == 1);
  CHECK(contains(reports[0].message, "frees 1 blocks that the other process has not returned"));
  received.clear();
  CHECK(taker.receive().empty());
  CHECK_FALSE(taker.is_open());
}

TEST_CASE("receive() returns at its timeout, or when the first block comes") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  CHECK(taker.receive().empty());
  CHECK(taker.receive(1ms).empty());
  CHECK(taker.receive(-5ms).empty());
  std::thread later([&] { giver.share(test.pool, test.pool.allocate(1_MiB, test.stream)); });
  CHECK(taker.receive(std::chrono::milliseconds::max()).size() == 1);
  later.join();
}

TEST_CASE("with a slow receiver no block is lost or shared twice") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  std::vector<Allocation> blocks = test.blocks(20'000, 512);
  CHECK(contains(message_of<Exhausted>([&] {
                   giver.share(test.pool, blocks, 1ms);
                   return 0;
                 }),
                 "of 20000 blocks are not shared"));
  const auto left =
      std::find_if(blocks.begin(), blocks.end(), [](auto& each) { return bool(each); });
  const std::size_t shared = std::size_t(left - blocks.begin());
  CHECK(shared > 1000);
  CHECK(shared < 20'000);
  CHECK(giver.blocks_shared() == shared);
  std::vector<SharedBlock> received = taker.receive(10s);
  CHECK(received.size() == shared);
  giver.share(test.pool, std::span(left, blocks.end()).first(2000), 10s);
  std::vector<SharedBlock> more = taker.receive(10s);
  CHECK(more.size() == 2000);
  received.clear();
  more.clear();
  CHECK(giver.reclaim() > 0);
  CHECK(taker.receive().empty());  // sends what did not fit before
  giver.reclaim();
  CHECK(giver.blocks_shared() == 0);
}

TEST_CASE("connections and blocks can be moved, assigned and empty") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection moved = std::move(giver);
  MemoryConnection taker = test.connect(sockets.take(1));
  std::vector<Allocation> blocks = test.blocks(2, 1_MiB);
  moved.share(test.pool, blocks);
  moved.share(test.pool, std::span<Allocation>());  // no blocks: no effect
  std::vector<SharedBlock> received = taker.receive(10s);
  REQUIRE(received.size() == 2);
  SharedBlock empty;
  CHECK_FALSE(bool(empty));
  CHECK(empty.device() == Device::cpu());
  empty.reset();
  received[0] = std::move(received[1]);
  CHECK(moved.reclaim() == 1);
  CHECK_FALSE(bool(received[1]));
  CHECK(bool(received[0]));
  SharedBlock& self = received[0];
  received[0] = std::move(self);
  CHECK(bool(received[0]));
  received[0].reset();
  CHECK(moved.reclaim() == 1);
}

}  // namespace memory_connection_test
