// SPDX-License-Identifier: Apache-2.0
// What a connection refuses, and its state after a failure.
#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>

#include "memory/host_memory_sweep.hpp"
#include "share/share_fixture.hpp"
#include "support/scarce_memory.hpp"

namespace memory_connection_failure_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

/// The number of the n-th descriptor that would be opened now.
rlim_t free_descriptor(int n) {
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(number >= 0);
  const rlim_t found = n > 1 ? free_descriptor(n - 1) : static_cast<rlim_t>(number);
  close(number);
  return found;
}

}  // namespace

TEST_CASE("only a connected AF_UNIX SOCK_SEQPACKET socket is accepted, and others stay open") {
  ShareTest test;
  SocketPair stream(SOCK_STREAM);
  SocketPair datagrams(SOCK_DGRAM);
  const int alone = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  const int internet = socket(AF_INET, SOCK_STREAM, 0);
  const int file = open("/dev/null", O_RDWR);
  for (const int socket : {-1, stream.end(0), datagrams.end(0), alone, internet, file, 1 << 20}) {
    CAPTURE(socket);
    const std::string message = message_of<InvalidArgument>([&] {
      const MemoryConnection none = test.connect(socket);
      return 0;
    });
    CHECK(contains(message, std::to_string(socket) + " cannot carry shared memory"));
  }
  for (const int socket : {alone, internet, file}) CHECK(close(socket) == 0);
}

TEST_CASE("blocks that cannot be shared are refused by name and stay with the caller") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryPool granules = test.memory.create_pool({.name = "granules"});
  MemoryPool other = test.memory.create_pool({.name = "other", .contiguous = true});
  std::vector<Allocation> blocks = test.blocks(3, 1_MiB);
  const auto refused = [&](MemoryPool& pool, std::span<Allocation> asked) {
    return message_of<InvalidArgument>([&] {
      giver.share(pool, asked);
      return 0;
    });
  };
  CHECK(contains(refused(other, blocks), "no live block of cuda:0/other"));
  std::vector<Allocation> small;
  small.push_back(granules.allocate(1_MiB, test.stream));
  CHECK(contains(refused(granules, small), "a pool with MemoryPoolOptions::contiguous"));
  blocks.emplace_back();
  CHECK(contains(refused(test.pool, blocks), "no live block of cuda:0/shared"));
  blocks.pop_back();
  CHECK(test.blocks_live() == 3);
  CHECK(giver.blocks_shared() == 0);
  giver.share(test.pool, blocks);
  CHECK(giver.blocks_shared() == 3);
  sockets.close_end(1);
  CHECK(giver.reclaim() == 3);
}

TEST_CASE("memory of a device without exportable memory is refused by name") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  ShareTest test({}, options);
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  std::vector<Allocation> blocks = test.blocks(1, 1_MiB);
  CHECK(contains(message_of<NotSupported>([&] {
                   giver.share(test.pool, blocks);
                   return 0;
                 }),
                 "cuda:0/shared cannot be shared"));
  CHECK(bool(blocks[0]));
}

TEST_CASE("after the other side has closed, nothing more is shared, and all blocks are freed") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
  sockets.close_end(1);
  std::vector<Allocation> blocks = test.blocks(1, 1_MiB);
  CHECK(contains(message_of<FileError>([&] {
                   giver.share(test.pool, blocks);
                   return 0;
                 }),
                 "has ended the memory connection"));
  CHECK(bool(blocks[0]));
  CHECK_FALSE(giver.is_open());
  CHECK(giver.receive(10s).empty());
  CHECK(giver.reclaim() == 1);
  CHECK(test.blocks_live() == 1);
}

TEST_CASE("blocks for which no descriptor is left are returned, and later blocks arrive") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  std::vector<Allocation> blocks = test.blocks(3, 30_MiB);  // a segment each
  giver.share(test.pool, blocks);
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const rlimit two_more{free_descriptor(2) + 1, usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &two_more) == 0);
  std::string message;
  try {
    static_cast<void>(taker.receive());
  } catch (const Exhausted& error) {
    message = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(contains(message, "no file descriptor left"));
  CHECK(taker.receive().empty());
  CHECK(giver.reclaim() == 3);
  giver.share(test.pool, test.pool.allocate(30_MiB, test.stream));
  CHECK(taker.receive(10s).size() == 1);
}

TEST_CASE("without a free descriptor nothing is shared, and the error has the limit") {
  ShareTest test;
  SocketPair sockets;
  SocketPair others;
  MemoryConnection giver = test.connect(sockets.take(0));
  std::vector<Allocation> blocks = test.blocks(1, 1_MiB);
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const rlimit none{free_descriptor(1), usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string shared = message_of<Exhausted>([&] {
    giver.share(test.pool, blocks);
    return 0;
  });
  const std::string connected = message_of<Exhausted>([&] {
    const MemoryConnection refused = test.connect(others.end(0));
    return 0;
  });
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  const std::string limit = "all " + std::to_string(none.rlim_cur) + " that it may have";
  for (const std::string& message : {shared, connected}) {
    CHECK(contains(message, "no file descriptor left (EMFILE): " + limit));
  }
  CHECK(contains(shared, "memory of cuda:0 cannot be exported"));
  CHECK(contains(shared, "CUDA_ERROR_OPERATING_SYSTEM"));
  CHECK(bool(blocks[0]));
  giver.share(test.pool, blocks);
  const MemoryConnection accepted = test.connect(others.take(0));
  sockets.close_end(1);
  CHECK(giver.reclaim() == 1);
}

TEST_CASE("each driver call of sharing may fail once: nothing is lost, and a repeat works") {
  // The pool's segment is mapped first, and then the import.
  for (const char* const fault :
       {"cuMemExportToShareableHandle@1", "cuMemImportFromShareableHandle@1",
        "cuMemAddressReserve@3", "cuMemMap@2", "cuMemSetAccess@2"}) {
    CAPTURE(fault);
    sim::Config config;
    config.faults = sim::FaultPlan::parse(std::string(fault) + "=unknown");
    ShareTest test(config);
    SocketPair sockets;
    MemoryConnection giver = test.connect(sockets.take(0));
    MemoryConnection taker = test.connect(sockets.take(1));
    std::vector<Allocation> blocks = test.blocks(1, 1_MiB);
    message_of<DriverError>([&] {
      giver.share(test.pool, blocks);
      return taker.receive(10s);
    });
    if (!bool(blocks[0])) blocks = test.blocks(1, 1_MiB);
    giver.share(test.pool, blocks);
    CHECK(taker.receive(10s).size() == 1);
    CHECK(taker.receive().empty());
    giver.reclaim();
    CHECK(giver.blocks_shared() == 0);
    CHECK(test.blocks_live() == 0);
  }
}

TEST_CASE("each call of operator new may fail once: nothing is lost") {
  host_memory_sweep::Machine machine(sim::Config{});
  DeviceAllocator memory(machine.context, machine.events, {});
  MemoryPool pool = memory.create_pool({.name = "shared", .contiguous = true});
  std::size_t refusals = 0;
  for (bool is_refused = true; is_refused; refusals += is_refused ? 1 : 0) {
    CAPTURE(refusals);
    is_refused = false;
    SocketPair sockets;
    auto giver = std::make_unique<MemoryConnection>(machine.registry, sockets.take(0));
    auto taker = std::make_unique<MemoryConnection>(machine.registry, sockets.take(1));
    std::vector<Allocation> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(pool.allocate(1_MiB, *machine.red));
    std::vector<SharedBlock> received;
    {
      const ScarceMemory scarce(refusals, 1);
      try {
        giver->share(pool, blocks);
        received = taker->receive();
        giver->reclaim();
      } catch (const std::bad_alloc&) {
        is_refused = true;
      }
    }
    // Each block is the caller's, or shared and received once, or has gone back.
    std::vector<SharedBlock> rest = taker->receive();
    const auto kept = std::ranges::count_if(blocks, [](const auto& each) { return bool(each); });
    CHECK(received.size() + rest.size() + static_cast<std::size_t>(kept) <= blocks.size());
    received.clear();
    rest.clear();
    CHECK(taker->receive().empty());
    giver->reclaim();
    CHECK(giver->blocks_shared() == 0);
    taker.reset();
    giver.reset();
    blocks.clear();
    CHECK(pool.counters().blocks_allocated.current == 0);
    pool.validate();
  }
  CHECK(refusals > 10);
  machine.destroy_foreign();
}

TEST_CASE("a forked child can close its parent's connections, and all else is refused") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection giver = test.connect(sockets.take(0));
  MemoryConnection taker = test.connect(sockets.take(1));
  giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
  std::vector<SharedBlock> received = taker.receive(10s);
  REQUIRE(received.size() == 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool refused = false;
    try {
      giver.reclaim();
    } catch (const NotSupported&) {
      refused = true;
    }
    received.clear();
    { const MemoryConnection ended = std::move(taker); }
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(giver.reclaim() == 0);
  received.clear();
  CHECK(giver.reclaim() == 1);
}

}  // namespace memory_connection_failure_test
