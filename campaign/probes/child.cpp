// SPDX-License-Identifier: Apache-2.0
#include "probes/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace berth::campaign {

Child::Child(const std::string& argument) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const std::array<const char*, 4> words = {program.c_str(), "--child", argument.c_str(), nullptr};
  const int failed = posix_spawn(&pid_, program.c_str(), &actions, nullptr,
                                 const_cast<char* const*>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = fdopen(ends[0], "r");
  if (failed != 0) {
    std::fclose(output_);
    throw std::system_error(failed, std::generic_category(), program);
  }
}

Child::~Child() {
  kill();
  wait();
  std::fclose(output_);
}

std::optional<std::string> Child::line() {
  std::string text;
  for (int next = std::fgetc(output_); next != EOF; next = std::fgetc(output_)) {
    if (next == '\n') return text;
    text += static_cast<char>(next);
  }
  return std::nullopt;
}

void Child::kill() const {
  if (pid_ != 0) ::kill(pid_, SIGKILL);
}

int Child::wait() {
  int status = 0;
  if (pid_ == 0) return 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace berth::campaign
