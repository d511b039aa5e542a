// SPDX-License-Identifier: Apache-2.0
// A process for tests with lasting effects: libraries that stay loaded, the end of a process.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/sanitizers.hpp"

namespace berth::test {

/// For alarm() in a child that may wait forever: longer than any child that does not.
inline constexpr unsigned kHangSeconds = 60;

/// The maximum number of children that are forked until one does not wait. AddressSanitizer before
/// GCC 14 and LLVM 17 does not keep its allocator consistent across fork(): if another thread
/// allocates meanwhile, the child may wait forever in its first allocation.
#if defined(BERTH_UNDER_ASAN)
inline constexpr int kForksMax = 3;
#else
inline constexpr int kForksMax = 1;
#endif

/// The exit code of a child process that runs `action` and ends as a program does, by exit() with
/// the code that `action` returns; nullopt if a signal ended it. An exception aborts the child.
template <class Action>
std::optional<int> exit_code_of(Action&& action, int forks_max = kForksMax) {
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
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const bool has_waited = WTERMSIG(status) == SIGALRM;
  return has_waited && forks_max > 1 ? exit_code_of(action, forks_max - 1) : std::nullopt;
}

/// Whether `action` returns true in a child, which ends without the handlers of exit(); a child
/// that waits forever is ended by a signal.
template <class Action>
std::optional<int> exit_code_without_waiting(const Action& action) {
  return exit_code_of([&] {
    alarm(kHangSeconds);
    _exit(action() ? 0 : 1);
    return 0;
  });
}

}  // namespace berth::test
