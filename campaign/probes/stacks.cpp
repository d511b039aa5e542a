// SPDX-License-Identifier: Apache-2.0
// Preloaded into every program of a campaign: on SIGQUIT each thread prints its stack. For programs
// that hang on a machine without a debugger; they are killed afterwards. A program that a campaign
// has started is also killed when the campaign is.
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int kFramesMax = 48;
constexpr int kTurnsMax = 300;  ///< of a millisecond, for a thread that does not respond

std::atomic<long> asked_thread = 0;  ///< 0: none, it has answered

/// A signal handler must not use code that takes a lock: neither stdio nor the heap.
void print(const char* text) {
  static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
}

void print_number(long number) {
  std::array<char, 24> digits{};
  std::size_t at = digits.size() - 1;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  print(&digits[at]);
}

void print_own_stack() {
  print("thread ");
  print_number(syscall(SYS_gettid));
  print("\n");
  std::array<void*, kFramesMax> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kFramesMax), STDERR_FILENO);
}

void ask(long thread) {
  asked_thread = thread;
  if (syscall(SYS_tgkill, getpid(), thread, SIGQUIT) != 0) return;
  for (int turn = 0; turn < kTurnsMax && asked_thread != 0; ++turn) {
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  if (asked_thread.exchange(0) == 0) return;
  print("thread ");
  print_number(thread);
  print(" does not answer\n");
}

// An entry of a folder, as the kernel has it (linux_dirent64): inode, offset, length, type, name.
constexpr std::size_t kLengthAt = 16;
constexpr std::size_t kNameAt = 19;

void ask_others() {
  const long own = syscall(SYS_gettid);
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  std::array<char, 4096> entries{};
  for (;;) {
    const long bytes = syscall(SYS_getdents64, folder, entries.data(), entries.size());
    if (bytes <= 0) break;
    std::uint16_t length = 0;
    for (std::size_t at = 0; at < static_cast<std::size_t>(bytes); at += length) {
      std::memcpy(&length, &entries[at + kLengthAt], sizeof length);
      long thread = 0;
      for (const char* digit = &entries[at + kNameAt]; *digit >= '0' && *digit <= '9'; ++digit)
        thread = 10 * thread + (*digit - '0');
      if (thread > 0 && thread != own) ask(thread);
    }
  }
  close(folder);
}

void answer(int) {
  const long own = syscall(SYS_gettid);
  const bool is_asked = asked_thread == own;
  print_own_stack();
  if (is_asked) {
    asked_thread = 0;
  } else {
    ask_others();
  }
}

/// Not for children of such a program, because a child of a thread would end with the thread.
void end_with_campaign() {
  const char* const runner = std::getenv("BERTH_CAMPAIGN_PARENT");
  if (runner != nullptr && std::strtol(runner, nullptr, 10) == getppid())
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

[[gnu::constructor]] void install() {
  end_with_campaign();
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // the first call loads a library
  struct sigaction action {};
  action.sa_handler = &answer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGQUIT, &action, nullptr);
}

}  // namespace
