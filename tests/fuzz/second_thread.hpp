// SPDX-License-Identifier: Apache-2.0
// Another thread of the host, with contexts and default streams of its own. It does one thing at a
// time while the caller waits, so that an input means the same every time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace berth::fuzz {

class SecondThread {
 public:
  SecondThread() = default;
  ~SecondThread() { end(); }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  /// Returns when `task` has; starts the thread where there is none.
  void run(std::function<void()> task);
  /// Ends the thread, as a program might; a later run() starts another one.
  void end();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;  // guarded by mutex_; empty while there is none
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;
};

}  // namespace berth::fuzz
