// SPDX-License-Identifier: Apache-2.0
// Whether an action stops the process, as BERTH_CHECK and BERTH_CHECK_USE do. The action runs in a
// child process, so that the test continues, and its message is not in the test's output.
#pragma once

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/child_process.hpp"

namespace berth::test {

/// What the process writes to standard error before the action stops it; nullopt if it does not.
template <class Action>
std::optional<std::string> last_words(Action&& action) {
  std::fflush(nullptr);
  std::FILE* const words = std::tmpfile();
  REQUIRE(words != nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's handler
    if (dup2(fileno(words), STDERR_FILENO) < 0) _exit(2);
    action();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  std::string text;
  std::rewind(words);
  for (int next = std::fgetc(words); next != EOF; next = std::fgetc(words))
    text += static_cast<char>(next);
  std::fclose(words);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) return std::nullopt;
  return text;
}

/// The same for a test case of this program, which runs alone in a process that can reach the
/// driver. Decorate it with doctest::skip(), and begin it with default_abort().
inline std::optional<std::string> last_words_of_case(const std::string& name) {
  const std::string filter = "-tc=" + name;
  return last_words([&filter] {
    alarm(kHangSeconds);
    execl("/proc/self/exe", "test", "--no-skip", filter.c_str(), "--out=/dev/null", nullptr);
  });
}
inline void default_abort() {
  std::signal(SIGABRT, SIG_DFL);
}

template <class Action>
bool stops_the_process(Action&& action) {
  return last_words(action).has_value();
}

}  // namespace berth::test
