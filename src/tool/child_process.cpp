// SPDX-License-Identifier: Apache-2.0
#include "tool/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "tool/printable.hpp"

namespace berth::tool {
namespace {

using SignalHandler = void (*)(int);
SignalHandler broken_pipe_handler = SIG_DFL;

constexpr int kHandedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kHandedOn) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

bool ends_programs(int signal) {
  return signal != SIGUSR1 && signal != SIGUSR2;
}

void ignore_or_end(int signal) {
  static volatile std::sig_atomic_t ignored = 0;
  if (!ends_programs(signal)) return;
  if (ignored < CaughtSignals::kIgnored) {
    ignored = ignored + 1;
    return;
  }
  std::signal(signal, SIG_DFL);
  raise(signal);  // delivered when the handler returns
}

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child: executes the program, or writes the reason of a failure to `failed`.
[[noreturn]] void become(char* const* arguments, const EnvironmentChanges& environment,
                         const sigset_t& signals, int failed) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::signal(SIGPIPE, broken_pipe_handler);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvp(arguments[0], arguments);
  const int reason = errno;
  static_cast<void>(!write(failed, &reason, sizeof reason));
  _exit(kNotFound);
}

/// The value that become() wrote; 0 if the program has started.
int read_failure(int from) {
  int reason = 0;
  ssize_t bytes = 0;
  do bytes = read(from, &reason, sizeof reason);
  while (bytes < 0 && errno == EINTR);
  return bytes == sizeof reason ? reason : 0;
}

ProgramEnd not_started(const std::string& program, int reason) {
  ProgramEnd end;
  end.exit_code = reason == ENOENT || reason == ENOTDIR ? kNotFound : kNotExecutable;
  end.failure =
      fmt::format("{}: {}", quoted_argument(program), std::generic_category().message(reason));
  return end;
}

/// Forwards signals until `child` has ended.
ProgramEnd wait_for_end(pid_t child) {
  const sigset_t set = awaited_signals();
  ProgramEnd end;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) != child) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&set, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    end.is_interrupted = end.is_interrupted || ends_programs(signal);
    const bool is_of_terminal = info.si_code == SI_KERNEL;
    if (!is_of_terminal) kill(child, signal);
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.exit_code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  return end;
}

}  // namespace

void ignore_broken_pipe() {
  broken_pipe_handler = std::signal(SIGPIPE, SIG_IGN);
}

CaughtSignals::CaughtSignals() {
  // If SIGCHLD is ignored, for example by inheritance, the end of a child is not reported.
  std::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = awaited_signals();
  sigprocmask(SIG_BLOCK, &set, &former_);
}

void CaughtSignals::ignore_few() {
  struct sigaction catching {};
  catching.sa_handler = ignore_or_end;
  catching.sa_flags = SA_RESTART;
  catching.sa_mask = awaited_signals();
  for (const int signal : kHandedOn) {
    struct sigaction former {};
    sigaction(signal, nullptr, &former);
    if (former.sa_handler != SIG_IGN) sigaction(signal, &catching, nullptr);
  }
  sigprocmask(SIG_SETMASK, &former_, nullptr);
}

ProgramEnd run_program(const std::vector<std::string>& arguments,
                       const EnvironmentChanges& environment, const CaughtSignals& signals) {
  const std::vector<char*> words = pointers_to(arguments);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) fail("pipe2");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) become(words.data(), environment, signals.former_, failed[1]);
  close(failed[1]);
  const int reason = read_failure(failed[0]);
  close(failed[0]);
  ProgramEnd end = wait_for_end(child);
  return reason == 0 ? end : not_started(arguments.front(), reason);
}

std::optional<std::string> output_of(const std::vector<std::string>& arguments) {
  const std::vector<char*> words = pointers_to(arguments);
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : kHandedOn) std::signal(signal, SIG_IGN);
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execvp(words[0], words.data());
    _exit(kNotFound);
  }
  close(output[1]);
  std::string text;
  char piece[4096];
  for (ssize_t bytes = 0; (bytes = read(output[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(bytes));
  close(output[0]);
  int status = 0;
  const bool has_ended = child > 0 && waitpid(child, &status, 0) == child;
  if (!has_ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace berth::tool
