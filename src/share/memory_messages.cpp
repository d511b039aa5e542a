// SPDX-License-Identifier: Apache-2.0
#include "share/memory_messages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <system_error>
#include <type_traits>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"

namespace berth {
namespace {

constexpr std::size_t kUuidBytes = 64;
constexpr std::array<char, 8> kMagic = {'b', 'e', 'r', 't', 'h', 'm', '0', '1'};

enum class Kind : std::uint32_t { share = 1, release = 2 };

struct Header {
  std::array<char, 8> magic;
  Kind kind;
  std::uint32_t segments;
  std::uint64_t blocks;
  std::array<char, kUuidBytes> uuid;  ///< ends with a null byte
};
static_assert(std::has_unique_object_representations_v<Header>);

constexpr std::size_t kPacketBytesMax =
    sizeof(Header) + kSegmentsMax * sizeof(SegmentRecord) + kBlocksMax * sizeof(BlockRecord);
constexpr std::size_t kControlBytes = CMSG_SPACE(kSegmentsMax * sizeof(int));

[[noreturn]] void fail(const std::string& why) {
  throw FileError("the socket of a memory connection: " + why);
}

[[noreturn]] void fail_by_system(const char* call) {
  const int error = errno;
  const std::string why = std::generic_category().message(error);
  if (error == EMFILE || error == ENFILE || error == ETOOMANYREFS)
    throw Exhausted(format_text("the socket of a memory connection: {}: {}{}", call, why,
                                error == EMFILE ? ": " + descriptor_shortage() : ""));
  fail(format_text("{}: {}", call, why));
}

template <class Record>
void append(std::vector<std::byte>& packet, std::span<const Record> records) {
  const auto bytes = std::as_bytes(records);
  packet.insert(packet.end(), bytes.begin(), bytes.end());
}

/// Copies `count` records out of the packet, and removes them from it.
template <class Record>
std::vector<Record> take(std::span<const std::byte>& packet, std::size_t count) {
  if (count > packet.size() / sizeof(Record)) fail("a message is too short for its records");
  std::vector<Record> records(count);
  if (count > 0) std::memcpy(records.data(), packet.data(), count * sizeof(Record));
  packet = packet.subspan(count * sizeof(Record));
  return records;
}

/// Appends the descriptors that came with a packet, for which there is room.
void take_descriptors(msghdr& message, std::vector<Descriptor>& descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + index * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
}

bool is_within(const BlockRecord& block, const std::vector<SegmentRecord>& segments) {
  if (block.segment >= segments.size() || block.bytes == 0) return false;
  const std::uint64_t bytes = segments[block.segment].bytes;
  return block.offset <= bytes && block.bytes <= bytes - block.offset;
}

Message parse(std::span<const std::byte> packet, std::vector<Descriptor> descriptors,
              bool lacks_descriptors) {
  const Header header = take<Header>(packet, 1).front();
  if (header.magic != kMagic) fail("the other process does not send messages of this version");
  if (header.blocks > kBlocksMax || header.segments > kSegmentsMax)
    fail("a message has too many records");
  Message message;
  message.lacks_descriptors = lacks_descriptors;
  if (header.kind == Kind::release) {
    message.released = take<std::uint64_t>(packet, header.blocks);
    if (!packet.empty() || !descriptors.empty()) fail("a message is longer than its records");
    return message;
  }
  if (header.kind != Kind::share) fail("a message is of an unknown kind");
  ShareMessage share;
  if (header.uuid.back() != '\0') fail("a message names no device");
  share.uuid = header.uuid.data();
  share.segments = take<SegmentRecord>(packet, header.segments);
  share.blocks = take<BlockRecord>(packet, header.blocks);
  if (!packet.empty()) fail("a message is longer than its records");
  if (share.segments.size() != descriptors.size() && !lacks_descriptors)
    fail("a message has not one descriptor for each segment");
  if (!std::ranges::all_of(
          share.blocks, [&](const BlockRecord& each) { return is_within(each, share.segments); }))
    fail("a block lies outside its segment");
  share.descriptors = std::move(descriptors);
  message.share = std::move(share);
  return message;
}

int option_of(int socket, int option) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

int checked(int socket) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  const bool is_connected = ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
  if (is_connected && option_of(socket, SO_DOMAIN) == AF_UNIX &&
      option_of(socket, SO_TYPE) == SOCK_SEQPACKET)
    return socket;
  throw InvalidArgument(format_text(
      "{} cannot carry shared memory; accepted: a connected socket of the domain AF_UNIX and the "
      "type SOCK_SEQPACKET",
      socket));
}

}  // namespace

MessageSocket::MessageSocket(int socket) : packet_(kPacketBytesMax) {
  socket_ = Descriptor(checked(socket));
}

void MessageSocket::shut_down() {
  ::shutdown(socket_.number(), SHUT_RDWR);
  is_open_ = false;
}

MessageSocket::Sent MessageSocket::send(const ShareMessage& message) {
  BERTH_CHECK(message.segments.size() <= kSegmentsMax && message.blocks.size() <= kBlocksMax);
  BERTH_CHECK(message.segments.size() == message.descriptors.size());
  Header header{.magic = kMagic,
                .kind = Kind::share,
                .segments = static_cast<std::uint32_t>(message.segments.size()),
                .blocks = message.blocks.size(),
                .uuid = {}};
  BERTH_CHECK(message.uuid.size() < kUuidBytes);
  std::ranges::copy(message.uuid, header.uuid.begin());
  std::vector<std::byte> packet;
  append(packet, std::span<const Header>(&header, 1));
  append(packet, std::span<const SegmentRecord>(message.segments));
  append(packet, std::span<const BlockRecord>(message.blocks));
  return send(packet, message.descriptors);
}

MessageSocket::Sent MessageSocket::send_released(std::span<const std::uint64_t> numbers) {
  BERTH_CHECK(!numbers.empty() && numbers.size() <= kBlocksMax);
  const Header header{
      .magic = kMagic, .kind = Kind::release, .segments = 0, .blocks = numbers.size(), .uuid = {}};
  std::vector<std::byte> packet;
  append(packet, std::span<const Header>(&header, 1));
  append(packet, numbers);
  return send(packet, {});
}

MessageSocket::Sent MessageSocket::send(std::span<const std::byte> packet,
                                        std::span<const Descriptor> descriptors) {
  if (!is_open()) return Sent::closed;
  iovec data{const_cast<std::byte*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (std::size_t index = 0; index < descriptors.size(); ++index) {
      const int number = descriptors[index].number();
      std::memcpy(CMSG_DATA(part) + index * sizeof(int), &number, sizeof number);
    }
  }
  for (;;) {
    if (::sendmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::yes;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return Sent::full;
    if (errno == EPIPE || errno == ECONNRESET) {
      // Messages that the other process has sent before stay readable: receive() detects the end.
      return Sent::closed;
    }
    fail_by_system("sendmsg()");
  }
}

std::optional<Message> MessageSocket::receive() {
  if (!is_open()) return std::nullopt;
  iovec data{packet_.data(), packet_.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  std::vector<Descriptor> descriptors;
  descriptors.reserve(kSegmentsMax);  // first, so that none is lost
  ssize_t bytes = -1;
  do {
    bytes = ::recvmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (bytes == 0 || (bytes < 0 && errno == ECONNRESET)) {
    shut_down();
    return std::nullopt;
  }
  try {
    if (bytes < 0) fail_by_system("recvmsg()");
    take_descriptors(message, descriptors);
    if ((message.msg_flags & MSG_TRUNC) != 0) fail("a message is too long");
    return parse(std::span(packet_).first(static_cast<std::size_t>(bytes)), std::move(descriptors),
                 (message.msg_flags & MSG_CTRUNC) != 0);
  } catch (...) {
    shut_down();
    throw;
  }
}

}  // namespace berth
