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

/// For alarm() in a child that may wait for ever: longer than any takes that does not.
inline constexpr unsigned kHangSeconds = 60;

/// The exit code of a child process that runs `action` and ends as a program does, by exit() with
/// the code that `action` returns; nullopt where a signal ended it. What throws ends the child by
/// abort.
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

/// The same of a child that ends with 0 or 1, whether `action` says true, without what exit() runs;
/// and by a signal where it waits for ever.
template <class Action>
std::optional<int> exit_code_without_waiting(const Action& action) {
  return exit_code_of([&] {
    alarm(kHangSeconds);
    _exit(action() ? 0 : 1);
    return 0;
  });
}

}  // namespace berth::test
