// SPDX-License-Identifier: Apache-2.0
// The main function of every doctest binary.
#define DOCTEST_CONFIG_IMPLEMENT
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/sanitizers.hpp"

// The sanitizers have their own pthread_create, and need no list.
#if !defined(BERTH_UNDER_ASAN) && !defined(BERTH_UNDER_TSAN)
#include "support/started_threads.hpp"

REGISTER_LISTENER("started threads", 1, berth::test::StartedThreads);
#endif

#ifdef BERTH_UNDER_ASAN
// A forked child has no other threads, so memory of those threads looks leaked.
static const pid_t parent = getpid();
extern "C" int __lsan_is_turned_off() {
  return getpid() != parent ? 1 : 0;
}
// A simulator that ends drops pending destructors of user objects, and so the holds that the
// allocators gave to graphs.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:berth::GraphHolds::make\n";
}
#endif

#ifdef BERTH_UNDER_TSAN
// The C++ library counts references to an exception in code that the sanitizer does not instrument,
// so the release of the last one on another thread looks like a race.
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
#endif

int main(int argc, char** argv) {
  const int status = doctest::Context(argc, argv).run();
#if !defined(BERTH_UNDER_ASAN) && !defined(BERTH_UNDER_TSAN)
  if (berth::test::unlisted_thread_found) return EXIT_FAILURE;
#endif
  return status;
}
