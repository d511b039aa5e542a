// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <poll.h>

namespace berth {

/// Waits until the socket has one of `events` or an error, until `wake` is readable, or until the
/// deadline. False: the deadline.
inline bool await_socket(int socket, short events, int wake,
                         std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd asked[] = {{socket, events, 0}, {wake, POLLIN, 0}};
    const auto most = std::min<milliseconds>(left, std::chrono::hours(1));
    const int ready = ::poll(asked, std::size(asked), static_cast<int>(most.count()));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

}  // namespace berth
