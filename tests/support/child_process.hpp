// SPDX-License-Identifier: Apache-2.0
// A process for what would mark this one: libraries that stay loaded, the end of a process.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace berth::test {

/// The exit code of a child process that runs `action` and ends as a program does, by exit() with the
/// code that `action` returns; nullopt where a signal ended it. What throws ends the child by abort.
template <class Action>
std::optional<int> exit_code_of(Action&& action) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's handler
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    [&]() noexcept { std::exit(action()); }();
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

}  // namespace berth::test
