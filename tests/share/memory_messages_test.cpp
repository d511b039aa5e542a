// SPDX-License-Identifier: Apache-2.0
// Messages of a hostile process: each ends the connection with an error, and nothing leaks.
#include "share/memory_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "share/share_fixture.hpp"

namespace memory_messages_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

using Packet = std::vector<unsigned char>;

/// A packet as MessageSocket sends it.
template <class Send>
Packet packet_of(const Send& send) {
  SocketPair sockets;
  MessageSocket from(sockets.take(0));
  REQUIRE(send(from) == MessageSocket::Sent::yes);
  Packet packet(1 << 17);
  const ssize_t bytes = recv(sockets.end(1), packet.data(), packet.size(), 0);
  REQUIRE(bytes > 0);
  packet.resize(std::size_t(bytes));
  return packet;
}

ShareMessage one_block(std::uint64_t segment_bytes, const BlockRecord& block) {
  ShareMessage message;
  message.uuid = "GPU-00000000-0000-0000-0000-000000000000";
  message.segments.push_back({0x1000, segment_bytes});
  message.blocks.push_back(block);
  message.descriptors.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
  return message;
}

Packet share_packet(std::uint64_t segment_bytes, const BlockRecord& block) {
  return packet_of(
      [&](MessageSocket& socket) { return socket.send(one_block(segment_bytes, block)); });
}

Packet release_packet(std::vector<std::uint64_t> numbers) {
  return packet_of([&](MessageSocket& socket) { return socket.send_released(numbers); });
}

/// Whether the other side of the socket's `end` has ended the connection. What it sent before is
/// read.
bool sees_end(int end) {
  unsigned char byte = 0;
  ssize_t bytes = 0;
  do {
    bytes = recv(end, &byte, 1, MSG_DONTWAIT);
  } while (bytes > 0);
  return bytes == 0;
}

/// The error of a connection that gets this packet, which has ended then, on both sides.
std::string refusal(ShareTest& test, const Packet& packet, const std::vector<int>& files = {}) {
  SocketPair sockets;
  MemoryConnection connection = test.connect(sockets.take(0));
  std::vector<Allocation> blocks = test.blocks(1, 1_MiB);
  connection.share(test.pool, blocks);
  send_message(sockets.end(1), packet, files);
  std::string message = message_of<FileError>([&] { return connection.receive(10s); });
  CHECK_FALSE(connection.is_open());
  CHECK(sees_end(sockets.end(1)));
  CHECK(connection.receive(10s).empty());
  CHECK(connection.reclaim() == 1);
  return message;
}

constexpr std::size_t kHeaderBytes = 88;

}  // namespace

TEST_CASE("malformed messages end the connection, and shared blocks are freed") {
  ShareTest test;
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  const BlockRecord fits{.number = 1, .segment = 0, .offset = 0, .bytes = 100};
  const Packet good = share_packet(4096, fits);
  CHECK(contains(refusal(test, {1}), "too short"));
  const std::ptrdiff_t before = descriptors_open();
  CHECK(contains(refusal(test, Packet(kHeaderBytes, 0)), "messages of this version"));
  Packet changed = good;
  changed[0] ^= 1;
  CHECK(contains(refusal(test, changed, {file}), "messages of this version"));
  changed = good;
  changed[8] = 9;  // the kind
  CHECK(contains(refusal(test, changed, {file}), "unknown kind"));
  changed = good;
  changed[12] = 200;  // the number of segments
  CHECK(contains(refusal(test, changed, {file}), "too many records"));
  changed = good;
  changed[18] = 1;  // the number of blocks
  CHECK(contains(refusal(test, changed, {file}), "too many records"));
  changed = good;
  std::fill_n(changed.begin() + 24, 64, 'x');  // the device
  CHECK(contains(refusal(test, changed, {file}), "names no device"));
  changed = good;
  changed.pop_back();
  CHECK(contains(refusal(test, changed, {file}), "too short"));
  changed = good;
  changed.push_back(0);
  CHECK(contains(refusal(test, changed, {file}), "longer than its records"));
  CHECK(contains(refusal(test, good), "one descriptor for each segment"));
  CHECK(contains(refusal(test, good, {file, file}), "one descriptor for each segment"));
  CHECK(contains(refusal(test, release_packet({1}), {file}), "longer than its records"));
  CHECK(contains(refusal(test, Packet(1 << 17, 1)), "too long"));
  for (const BlockRecord& outside :
       {BlockRecord{1, 1, 0, 100}, BlockRecord{1, 0, 0, 4097}, BlockRecord{1, 0, 4000, 97},
        BlockRecord{1, 0, ~std::uint64_t{0}, 2}, BlockRecord{1, 0, 0, 0}}) {
    CHECK(contains(refusal(test, share_packet(4096, outside), {file}), "outside its segment"));
  }
  CHECK(descriptors_open() == before);
  close(file);
}

TEST_CASE("a descriptor of no memory and a device that is not visible are refused") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection connection = test.connect(sockets.take(0));
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  const std::ptrdiff_t before = descriptors_open();
  const BlockRecord block{.number = 5, .segment = 0, .offset = 0, .bytes = 100};
  send_message(sockets.end(1), share_packet(2_MiB, block), {file});
  CHECK(contains(message_of<NotSupported>([&] { return connection.receive(10s); }),
                 "which this process does not see"));
  ShareMessage here = one_block(2_MiB, block);
  here.uuid = test.runtime->devices().info(Device::cuda(0)).uuid;
  const Packet bogus = packet_of([&](MessageSocket& socket) { return socket.send(here); });
  send_message(sockets.end(1), bogus, {file});
  message_of<DriverError>([&] { return connection.receive(10s); });
  CHECK(connection.is_open());
  here.descriptors.clear();
  CHECK(descriptors_open() == before);

  // Both blocks have gone back, each once.
  MessageSocket other(sockets.take(1));
  static_cast<void>(connection.receive());
  std::vector<std::uint64_t> released;
  while (const auto message = other.receive())
    released.insert(released.end(), message->released.begin(), message->released.end());
  CHECK(released == std::vector<std::uint64_t>{5, 5});
  close(file);
}

TEST_CASE("a segment that changes its size ends the connection") {
  ShareTest test;
  SocketPair honest;
  MemoryConnection giver = test.connect(honest.take(0));
  giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
  MessageSocket between(honest.take(1));
  ShareMessage message = between.receive().value().share.value();
  const int copy = fcntl(message.descriptors[0].number(), F_DUPFD_CLOEXEC, 0);
  SocketPair sockets;
  MemoryConnection connection = test.connect(sockets.take(0));
  MessageSocket hostile(sockets.take(1));
  REQUIRE(hostile.send(message) == MessageSocket::Sent::yes);
  const std::vector<SharedBlock> block = connection.receive(10s);
  REQUIRE(block.size() == 1);
  message.segments[0].bytes /= 2;
  message.descriptors[0] = Descriptor(copy);
  REQUIRE(hostile.send(message) == MessageSocket::Sent::yes);
  CHECK(contains(message_of<FileError>([&] { return connection.receive(10s); }),
                 "a segment has changed"));
  CHECK_FALSE(connection.is_open());
}

TEST_CASE("a block outside a segment that exists ends the connection") {
  ShareTest test;
  SocketPair honest;
  MemoryConnection giver = test.connect(honest.take(0));
  giver.share(test.pool, test.pool.allocate(1_MiB, test.stream));
  MessageSocket between(honest.take(1));
  ShareMessage message = between.receive().value().share.value();
  const BlockRecord good = message.blocks[0];
  for (const BlockRecord& outside : {BlockRecord{1, 0, ~std::uint64_t{0}, 2},
                                     BlockRecord{1, 0, good.offset, message.segments[0].bytes + 1},
                                     BlockRecord{1, 1, good.offset, good.bytes}}) {
    SocketPair sockets;
    MemoryConnection connection = test.connect(sockets.take(0));
    MessageSocket hostile(sockets.take(1));
    message.blocks[0] = outside;
    REQUIRE(hostile.send(message) == MessageSocket::Sent::yes);
    CHECK(contains(message_of<FileError>([&] { return connection.receive(10s); }),
                   "outside its segment"));
    CHECK_FALSE(connection.is_open());
  }
}

TEST_CASE("returns of unknown block numbers have no effect") {
  ShareTest test;
  SocketPair sockets;
  MemoryConnection connection = test.connect(sockets.take(0));
  std::vector<Allocation> blocks = test.blocks(2, 1_MiB);
  connection.share(test.pool, blocks);
  send_message(sockets.end(1), release_packet({2, 2, 0, ~std::uint64_t{0}, 77}));
  CHECK(connection.reclaim() == 1);
  send_message(sockets.end(1), release_packet({2}));
  CHECK(connection.reclaim() == 0);
  CHECK(connection.blocks_shared() == 1);
  sockets.close_end(1);
  CHECK(connection.reclaim() == 1);
}

TEST_CASE("random bytes and random changes of good messages never crash") {
  ShareTest test;
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::mt19937 random(7);
  const Packet good = share_packet(4096, {.number = 1, .segment = 0, .offset = 0, .bytes = 100});
  const std::ptrdiff_t before = descriptors_open();
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    SocketPair sockets;
    MemoryConnection connection = test.connect(sockets.take(0));
    Packet packet = good;
    for (unsigned i = random() % 4; i < 4; ++i)
      packet[random() % packet.size()] = static_cast<unsigned char>(random());
    if (random() % 4 == 0) packet.resize(1 + random() % packet.size());
    send_message(sockets.end(1), packet, std::vector<int>(random() % 3, file));
    try {
      CHECK(connection.receive().empty());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): any of them
    }
  }
  CHECK(descriptors_open() == before);
  close(file);
}

}  // namespace memory_messages_test
