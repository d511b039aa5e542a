// SPDX-License-Identifier: Apache-2.0
// Whether an action stops the process, as BERTH_CHECK does. The action runs in a child process, so
// that the test continues, and its message is not in the test's output.
#pragma once

#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace berth::test {

template <class Action>
bool stops_the_process(Action&& action) {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's handler
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace berth::test
