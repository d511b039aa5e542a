// SPDX-License-Identifier: Apache-2.0
// A mutex whose state a forked child can go on with.
#pragma once

#include "base/mutex.hpp"

namespace berth {

/// fork() waits until nobody holds it, so that the child finds what it guards whole, and it free.
/// For what must work in a child; the rest is refused there (ForkOrigin).
/// Threads  Nobody takes another lock, or forks, while holding it. Made and destroyed on any
///          thread, but not while holding one.
class ForkSafeMutex : public Mutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

 private:
  struct Process;
  static Process& process();
};

}  // namespace berth
