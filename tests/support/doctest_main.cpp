// SPDX-License-Identifier: Apache-2.0
// The main function of every doctest binary.
#define DOCTEST_CONFIG_IMPLEMENT
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/sanitizers.hpp"

// The sanitizers have a pthread_create of their own, and need no list.
#if !defined(BERTH_UNDER_ASAN) && !defined(BERTH_UNDER_TSAN)
#include "support/started_threads.hpp"

REGISTER_LISTENER("started threads", 1, berth::test::StartedThreads);
#endif

#ifdef BERTH_UNDER_ASAN
// A forked child has none of the other threads, and what they kept for themselves looks lost to it.
static const pid_t parent = getpid();
extern "C" int __lsan_is_turned_off() {
  return getpid() != parent ? 1 : 0;
}
// A simulator that ends drops the destructors of user objects that have not run, and so what the
// allocators gave to graphs.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:berth::GraphHolds::make\n";
}
#endif

#ifdef BERTH_UNDER_TSAN
// The references to an exception are counted by code of the C++ library that the sanitizer does not
// see: it takes the last one's end on another thread for a race.
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
