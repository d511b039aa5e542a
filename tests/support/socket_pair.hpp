// SPDX-License-Identifier: Apache-2.0
// Two connected local sockets, and messages with descriptors over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace berth::test {

/// Both ends are closed with it, unless they are taken.
class SocketPair {
 public:
  explicit SocketPair(int type = SOCK_SEQPACKET) {
    REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends_) == 0);
  }
  ~SocketPair() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  [[nodiscard]] int end(int which) const { return ends_[which]; }
  /// Gives it to the caller.
  [[nodiscard]] int take(int which) { return std::exchange(ends_[which], -1); }
  void close_end(int which) { close(take(which)); }

 private:
  int ends_[2];
};

/// Sends a message, and with it at most 8 descriptors, which stay open here.
inline void send_message(int socket, std::span<const unsigned char> content,
                         const std::vector<int>& descriptors = {}) {
  constexpr std::size_t kDescriptorsMax = 8;
  const std::size_t bytes = descriptors.size() * sizeof(int);
  REQUIRE(descriptors.size() <= kDescriptorsMax);
  iovec data{const_cast<unsigned char*>(content.data()), content.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
  }
  REQUIRE(sendmsg(socket, &message, 0) == static_cast<ssize_t>(content.size()));
}

}  // namespace berth::test
