// SPDX-License-Identifier: Apache-2.0
// A mutex that a forked child can use.
#pragma once

#include "base/mutex.hpp"

namespace berth {

/// fork() waits until no thread holds the mutex, so that in the child it is free and the guarded
/// state is consistent. For state that must work in a child; all other calls are refused there
/// (ForkOrigin).
/// Threads  A thread that holds the mutex takes no other lock, and does not fork. Created and
///          destroyed on any thread that holds no such mutex.
class ForkSafeMutex : public Mutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

 private:
  struct Process;
  static Process& process();
  static const bool is_prepared_;  ///< made when the library is loaded, as ForkOrigin's
};

}  // namespace berth
