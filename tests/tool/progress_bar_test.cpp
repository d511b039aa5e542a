// SPDX-License-Identifier: Apache-2.0
#include "tool/progress_bar.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

using berth::tool::progress_line;
using berth::tool::ProgressBar;
using namespace std::chrono_literals;

namespace {

/// Runs `work` with standard error on `writer`, and returns what arrives at `reader`. Closes both.
std::string shown_on(int reader, int writer, const std::function<void()>& work) {
  const int real_stderr = dup(STDERR_FILENO);
  dup2(writer, STDERR_FILENO);
  close(writer);
  work();
  dup2(real_stderr, STDERR_FILENO);
  close(real_stderr);

  std::string shown;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(reader, buffer, sizeof buffer)) > 0;)
    shown.append(buffer, std::size_t(count));
  close(reader);
  return shown;
}

int open_terminal() {
  return posix_openpt(O_RDWR | O_NOCTTY);
}

/// A container need not have pseudo-terminals.
bool has_terminals() {
  const int terminal = open_terminal();
  if (terminal < 0) {
    MESSAGE("skipped: this system has no pseudo-terminals");
    return false;
  }
  close(terminal);
  return true;
}

std::string shown_on_terminal(const std::function<void()>& work) {
  const int terminal = open_terminal();
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  const int writer = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(writer >= 0);
  return shown_on(terminal, writer, work);
}

std::string shown_on_pipe(const std::function<void()>& work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  return shown_on(ends[0], ends[1], work);
}

}  // namespace

TEST_CASE("a progress line has label, bar and percentage") {
  CHECK(progress_line("copies", 0, 4, 80) ==
        "copies  [----------------------------------------]    0 %");
  CHECK(progress_line("copies", 1, 4, 80) ==
        "copies  [##########------------------------------]   25 %");
  CHECK(progress_line("copies", 4, 4, 80) ==
        "copies  [########################################]  100 %");
}

TEST_CASE("a progress line fits the terminal, and drops the label first, then the bar") {
  for (std::size_t width = 0; width < 100; ++width)
    CHECK(progress_line("a label of some length", 1, 3, width).size() <= width);
  CHECK(progress_line("label", 1, 2, 23) == "la  [#####-----]   50 %");
  CHECK(progress_line("label", 1, 2, 12) == "50 %");
}

TEST_CASE("no work, or more work than the total, counts as 100 %") {
  CHECK(progress_line("x", 0, 0, 12) == "100 %");
  CHECK(progress_line("x", 9, 3, 12) == "100 %");
}

TEST_CASE("a terminal shows the bar, and clears it at the end") {
  if (!has_terminals()) return;
  const std::string shown = shown_on_terminal([] {
    ProgressBar bar("copies", 2, 0ms);
    bar.update(1);
  });
  CHECK(shown == "\r\033[K" + progress_line("copies", 1, 2, 79) + "\r\033[K");
}

TEST_CASE("short work and an output that is no terminal show nothing") {
  CHECK(shown_on_pipe([] { ProgressBar("copies", 2, 0ms).update(1); }).empty());
  if (!has_terminals()) return;
  CHECK(shown_on_terminal([] { ProgressBar("copies", 2, 1h).update(1); }).empty());
}
