// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <type_traits>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/mutex.hpp"

namespace berth {
namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

/// The replacement if membarrier(2) is not available. To remove write access to a page, the kernel
/// must make every processor that runs a thread of the process drop its translation. On x86 it does
/// so by an interrupt, whose return is a full fence. A processor that runs no thread of the process
/// has executed a fence when it switched. This does not work on other architectures, on which an
/// instruction drops translations without an interrupt, nor on x86 if the kernel uses INVLPGB.
class PageToggle {
 public:
  PageToggle() {
    if (!drops_translations_by_interrupt()) return;
    void* const page = mmap(nullptr, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) page_ = static_cast<volatile char*>(page);
  }

  /// False if this does not work here.
  bool fence() {
    if (page_ == nullptr) return false;
    const MutexLock lock(mutex_);
    if (!protect(PROT_READ | PROT_WRITE)) return false;
    *page_ = 1;  // a translation exists only after a write
    return protect(PROT_READ);
  }

 private:
  /// AMD64 Architecture Programmer's Manual, volume 3: CPUID Fn8000_0008_EBX[INVLPGB].
  static bool drops_translations_by_interrupt() {
#if defined(__x86_64__)
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(0x8000'0008u, &eax, &ebx, &ecx, &edx) == 0) return true;
    return (ebx & (1u << 3)) == 0;
#else
    return false;
#endif
  }
  [[nodiscard]] bool protect(int access) const {
    return mprotect(const_cast<char*>(page_), 1, access) == 0;
  }

  /// fork() need not wait for this mutex, because a forked child has no other threads.
  Mutex mutex_;
  volatile char* page_ = nullptr;  ///< written under mutex_
};

/// Created while the kernel still allows all calls. Has no destructor, because threads may outlive
/// static objects.
PageToggle& page_toggle() {
  static PageToggle toggle;
  return toggle;
}
static_assert(std::is_trivially_destructible_v<PageToggle>);

bool make_available() {
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) return false;
  page_toggle();
  return true;
}

}  // namespace

// No thread waits for another one's first use, which a forked child would do forever. To register
// twice is harmless.
bool BiasedLock::is_available() noexcept {
  enum class Known : char { nothing, no, yes };
  static constinit std::atomic<Known> known = Known::nothing;
  Known found = known.load(std::memory_order_acquire);
  if (found == Known::nothing) [[unlikely]] {
    found = make_available() ? Known::yes : Known::no;
    known.store(found, std::memory_order_release);
  }
  return found == Known::yes;
}

void BiasedLock::fence() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) [[likely]]
    return;
  const int error = errno;
  if (membarrier(MEMBARRIER_CMD_GLOBAL) == 0 || page_toggle().fence()) return;
  std::fprintf(stderr,
               "berth: membarrier(2) was allowed when this process first used it, and fails now "
               "(%s), but is required; a sandbox must allow it, or forbid it before "
               "memory is first allocated\n",
               std::strerror(error));
  std::abort();
}

void BiasedLock::wait_until_left() const {
  // A few instructions if the owner runs; an interrupted owner gets the processor.
  while (inside_.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace berth
