// SPDX-License-Identifier: Apache-2.0
// Another process at the other end of a socket, and what the two send each other.
#pragma once

#include <csignal>
#include <functional>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <doctest/doctest.h>

#include "support/socket_pair.hpp"

/// Returns from the role of a PeerProcess with the line if the condition does not hold. Without
/// doctest, which belongs to the parent.
#define NEED(condition) \
  if (!(condition)) return __LINE__ & 0x7f

namespace berth::test {

template <class T>
bool send(int socket, const T& content) {
  return write(socket, &content, sizeof(content)) == sizeof(content);
}
template <class T>
bool receive(int socket, T& content) {
  return read(socket, &content, sizeof(content)) == sizeof(content);
}
inline bool signal_peer(int socket) {
  return send(socket, char{1});
}
inline bool await_peer(int socket) {
  char byte = 0;
  return receive(socket, byte);
}

/// Runs `role` with a socket, which it may close, and ends with its result: 0 is success. It must
/// start before this process has a simulator.
class PeerProcess {
 public:
  explicit PeerProcess(const std::function<int(int socket)>& role) {
    process_ = fork();
    REQUIRE(process_ >= 0);
    sockets_.close_end(process_ != 0 ? 1 : 0);
    if (process_ != 0) return;
    int result = 99;
    try {
      result = role(sockets_.take(1));
    } catch (...) {  // NOLINT(bugprone-empty-catch): 99
    }
    _exit(result);
  }
  ~PeerProcess() {
    if (process_ > 0) kill();
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  [[nodiscard]] int socket() const { return sockets_.end(0); }
  /// Gives it to the caller.
  [[nodiscard]] int take_socket() { return sockets_.take(0); }
  void kill() {
    ::kill(process_, SIGKILL);
    static_cast<void>(join());
  }
  /// The result of the role; -1: a signal ended it.
  [[nodiscard]] int join() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  SocketPair sockets_;
  pid_t process_ = -1;
};

}  // namespace berth::test
