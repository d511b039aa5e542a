// SPDX-License-Identifier: Apache-2.0
// One connection and many threads: some share and reclaim, some receive and return.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "share/share_fixture.hpp"

namespace memory_connection_threads_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

TEST_CASE("the end of a connection wakes the threads that wait in it") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  std::atomic<int> woken = 0;
  std::thread receives([&] { woken += giver.receive(24h).empty() ? 1 : 0; });
  std::thread shares([&] {
    const std::string message = message_of<FileError>([&] {
      for (;;)
        giver.share(test.pool, test.pool.allocate(100'000, test.stream),
                    24h);  // until the queue is full
      return 0;
    });
    woken += contains(message, "this process has ended the memory connection") ? 1 : 0;
  });
  while (giver.blocks_shared() < 10) std::this_thread::yield();
  giver.end();
  giver.end();
  receives.join();
  shares.join();
  CHECK(woken == 2);
  CHECK_FALSE(giver.is_open());
  CHECK(giver.receive(24h).empty());
  CHECK(giver.reclaim() == 0);
  CHECK(giver.blocks_shared() == 0);
  CHECK(test.blocks_live() == 0);
}

TEST_CASE("received blocks outlive their connection and are returned") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
  std::vector<SharedBlock> received = taker.receive(10s);
  REQUIRE(received.size() == 1);
  taker.end();
  CHECK(giver.reclaim() == 0);
  CHECK(giver.is_open());
  received.clear();
  CHECK(giver.reclaim() == 1);
}

TEST_CASE("threads share, receive, return and reclaim over one connection") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  constexpr int kRounds = 100;
  constexpr int kThreads = 2;
  std::atomic<int> received = 0;
  std::atomic<int> freed = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<Allocation> blocks = test.blocks(3, 100'000);
        giver.share(test.pool, blocks);
        freed += int(giver.reclaim());
      }
    });
    threads.emplace_back([&] {
      while (received < 3 * kRounds * kThreads) {
        std::vector<SharedBlock> blocks = taker.receive(1ms);
        received += int(blocks.size());
        for (const SharedBlock& block : blocks) wrong += block.bytes() == 100'000 ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (giver.blocks_shared() > 0) {
    freed += int(giver.reclaim());
    CHECK(taker.receive().empty());  // returns what the other end had no room for
  }
  CHECK(received == 3 * kRounds * kThreads);
  CHECK(freed == 3 * kRounds * kThreads);
  CHECK(wrong == 0);
  CHECK(test.blocks_live() == 0);
}

TEST_CASE("a thread that waits for blocks returns when the connection ends") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection taker = test.connect(sockets.take(0));
  std::atomic<bool> has_returned = false;
  std::thread waits([&] {
    try {
      CHECK(taker.receive(std::chrono::hours(10)).empty());
    } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): this thread read the message
    }
    has_returned = true;
  });
  REQUIRE(send(sockets.end(1), "x", 1, 0) == 1);  // malformed
  while (!has_returned) {
    try {
      static_cast<void>(taker.receive());
    } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): or this one did
    }
    std::this_thread::yield();
  }
  waits.join();
  CHECK_FALSE(taker.is_open());
}

}  // namespace memory_connection_threads_test
