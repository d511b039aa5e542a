// SPDX-License-Identifier: Apache-2.0
// A sandbox that is set up after memory was first allocated, and forbids membarrier(2) from then
// on.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/biased_lock.hpp"
#include "support/child_process.hpp"

namespace biased_lock_sandbox_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kNoSandbox = 3;

/// Lets the calling thread, and those that it starts, have EPERM from each of `calls`. For ever.
template <std::size_t kCount>
bool forbid(const std::array<long, kCount>& calls) {
  std::array<sock_filter, kCount + 3> program{};
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t index = 0; index < kCount; ++index) {
    const auto to_refusal = static_cast<std::uint8_t>(kCount - index);
    program[index + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                  static_cast<std::uint32_t>(calls[index]), to_refusal, 0);
  }
  program[kCount + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[kCount + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool is_forbidden() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == -1 && errno == EPERM;
}

/// Whether an owner and another thread, which uses fences, were inside together.
bool meet_inside() {
  BiasedLock lock;
  std::atomic<bool> is_over = false;
  std::uint64_t a = 0;  // not atomic: the lock makes them safe
  std::uint64_t b = 0;
  std::atomic<std::uint64_t> torn = 0;
  std::thread owner([&] {
    while (!is_over) {
      if (!lock.try_enter()) continue;
      if (a != b) ++torn;
      ++a;
      ++b;
      lock.leave();
    }
  });
  for (int round = 0; round < 20'000; ++round) {
    lock.forbid();
    BiasedLock::fence();
    lock.wait_until_left();
    if (a != b) ++torn;
    ++a;
    ++b;
    lock.permit();
  }
  is_over = true;
  owner.join();
  return torn != 0 || a != b;
}

/// The exit code of a process whose sandbox forbids `calls`, which `action` gives; none where it is
/// stopped.
template <std::size_t kCount, class Action>
std::optional<int> in_sandbox(const std::array<long, kCount>& calls, const Action& action) {
  return exit_code_of([&] {
    if (!BiasedLock::is_available()) return kNoSandbox;
    BiasedLock::fence();
    if (!forbid(calls)) return kNoSandbox;
    return is_forbidden() ? action() : 2;
  });
}

}  // namespace

TEST_CASE("mprotect replaces membarrier if a sandbox forbids it after its first use") {
#if defined(__x86_64__)
  const std::optional<int> code =
      in_sandbox(std::array<long, 1>{SYS_membarrier}, [] { return meet_inside() ? 1 : 0; });
  if (code == kNoSandbox) {
    MESSAGE("no membarrier or no seccomp here: nothing is tested");
    return;
  }
  CHECK(code == 0);
#else
  MESSAGE("there is no other way here: nothing is tested");
#endif
}

TEST_CASE("the process stops if the sandbox forbids both membarrier and mprotect") {
  const std::optional<int> code = in_sandbox(std::array<long, 2>{SYS_membarrier, SYS_mprotect}, [] {
    BiasedLock::fence();
    return 0;
  });
  if (code == kNoSandbox) {
    MESSAGE("no membarrier or no seccomp here: nothing is tested");
    return;
  }
  CHECK_FALSE(code.has_value());
}

}  // namespace biased_lock_sandbox_test
