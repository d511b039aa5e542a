// SPDX-License-Identifier: Apache-2.0
// A second process of this program, whose output is read line by line.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <sys/types.h>

namespace berth::campaign {

class Child {
 public:
  /// Runs this program with the arguments `--child` and `argument`.
  /// Errors  std::system_error.
  explicit Child(const std::string& argument);
  /// Blocking  Kills the child if it still runs, and waits until it has ended.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Blocking  For the next line; nullopt at the end.
  std::optional<std::string> line();
  void kill() const;
  /// Blocking  Until it has ended. The exit status, or 128 and the signal that ended it.
  int wait();

 private:
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
};

}  // namespace berth::campaign
