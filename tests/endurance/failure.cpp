// SPDX-License-Identifier: Apache-2.0
#include "endurance/failure.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>

namespace berth::endurance {
namespace {

std::array<char, 512> running{};
std::atomic<bool> failed = false;

void say_what_ran(int signal) {
  const std::string_view text(running.data());
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

void set_running(std::string_view description) {
  const auto end = fmt::format_to_n(running.data(), running.size() - 1, "{}", description).out;
  *end = '\0';
}

void fail(std::string_view what) {
  // What other threads find next is most likely the consequence of this.
  while (failed.exchange(true)) pause();
  std::fflush(stdout);
  fmt::print(stderr, "endurance: {} (operation {} of its thread)\n{}", what, operations_begun,
             running.data());
  std::_Exit(1);
}

void catch_signals() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGTERM})
    std::signal(signal, &say_what_ran);
}

}  // namespace berth::endurance
