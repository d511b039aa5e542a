// SPDX-License-Identifier: Apache-2.0
// Several processes, each with a driver of its own, that share memory: all see the same bytes; one
// that is killed leaves nothing behind.
#include <chrono>
#include <memory>
#include <vector>

#include "share/share_fixture.hpp"
#include "support/peer_process.hpp"

namespace shared_processes_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

/// A machine with a device more before the shared one, which has another ordinal then.
std::string config_of(bool has_more) {
  return has_more ? "devices=2,memory=1GiB" : "devices=1,memory=1GiB";
}

/// Adds 1 to the first byte of each block that arrives, until `count` have, and returns them.
int add_one(int socket, int count) {
  sim::Simulator simulator{sim::Config::parse(config_of(false))};
  RuntimeOptions options;
  options.driver = "sim";
  Runtime runtime(options);
  MemoryConnection connection = runtime.connect_memory(socket);
  const Stream stream = runtime.create_stream(Device::cuda(0));
  for (int done = 0; done < count;) {
    std::vector<SharedBlock> blocks = connection.receive(60s);
    if (blocks.empty()) return 1;
    for (const SharedBlock& block : blocks) {
      const auto bytes = simulator.peek(address_of(block.data()), 1);
      const auto next = static_cast<unsigned char>(bytes.at(0) + 1);
      if (!fill_by_driver(runtime, stream, block.data(), next, 1)) return 3;
    }
    done += int(blocks.size());
  }
  return simulator.device_bytes_used(0) == 0 ? 0 : 2;
}

/// Takes what arrives, tells so by returning the first block, and never ends.
int hold(int socket) {
  sim::Simulator simulator{sim::Config::parse(config_of(false))};
  RuntimeOptions options;
  options.driver = "sim";
  Runtime runtime(options);
  MemoryConnection connection = runtime.connect_memory(socket);
  std::vector<SharedBlock> blocks = connection.receive(60s);
  if (!blocks.empty()) blocks.front().reset();
  for (;;) pause();
}

}  // namespace

TEST_CASE("other processes read and write shared blocks, and return them") {
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (int i = 0; i < 3; ++i)
    peers.push_back(std::make_unique<PeerProcess>([](int socket) { return add_one(socket, 40); }));
  ShareTest test(sim::Config::parse(config_of(true)));
  std::vector<MemoryConnection> connections;
  for (const auto& peer : peers) connections.push_back(test.connect(peer->take_socket()));
  std::vector<std::vector<void*>> data(peers.size());
  for (int round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
      Allocation block = test.pool.allocate(100'000, test.stream);
      test.fill(block.data(), std::uint8_t(round), 100'000);
      data[i].push_back(block.data());
      connections[i].share(test.pool, std::move(block));
    }
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    CHECK(peers[i]->join() == 0);
    for (int round = 0; round < 40; ++round)
      CHECK(test.has(data[i][std::size_t(round)], std::uint8_t(round + 1), 1));
    CHECK(connections[i].reclaim() == 40);
    CHECK_FALSE(connections[i].is_open());
  }
  CHECK(test.blocks_live() == 0);
}

TEST_CASE("a process that is killed with a thousand blocks leaves nothing behind, 100 times") {
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (int i = 0; i < 100; ++i) peers.push_back(std::make_unique<PeerProcess>(hold));
  ShareTest test(sim::Config::parse(config_of(false)));
  std::ptrdiff_t descriptors = 0;
  std::uint64_t bytes_used = 0;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    CAPTURE(i);
    MemoryConnection connection = test.connect(peers[i]->take_socket());
    std::vector<Allocation> blocks = test.blocks(1000, 100'000);
    connection.share(test.pool, blocks);
    while (connection.blocks_shared() == 1000 && connection.reclaim() == 0) usleep(100);
    peers[i]->kill();
    CHECK(connection.reclaim() == 999);
    CHECK(connection.blocks_shared() == 0);
    CHECK(test.blocks_live() == 0);
    if (i == 0) bytes_used = test.simulator.device_bytes_used(0);
    CHECK(test.simulator.device_bytes_used(0) == bytes_used);
    if (i > 0) CHECK(descriptors_open() == descriptors - std::ptrdiff_t(i));
    if (i == 0) descriptors = descriptors_open();
  }
  CHECK(test.pool.trim() == bytes_used);
  CHECK(test.simulator.device_bytes_used(0) == 0);
}

TEST_CASE("the next call detects that the other process has exited") {
  PeerProcess peer([](int) { return 0; });
  ShareTest test(sim::Config::parse(config_of(false)));
  MemoryConnection connection = test.connect(peer.take_socket());
  CHECK(peer.join() == 0);
  CHECK(connection.receive(60s).empty());
  CHECK_FALSE(connection.is_open());
}

}  // namespace shared_processes_test
