// SPDX-License-Identifier: Apache-2.0
// A library without GetPjrtApi. STARTS_THREAD: it starts a thread as it is loaded.
#include <pthread.h>

#include "berth/export.h"

namespace {

// Waits for nothing, to the end of the process.
[[maybe_unused]] void* wait_forever(void* /*unused*/) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
}

#if STARTS_THREAD
struct Starter {
  Starter() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &wait_forever, nullptr) == 0) pthread_detach(thread);
  }
} const starter;
#endif

}  // namespace

extern "C" BERTH_API int berth_test_no_plugin() {
  return 1;
}
