/* SPDX-License-Identifier: Apache-2.0 */
// A program that loads libberth and unloads it again: what the library keeps of failures takes no
// more than one key of threads' data, gives that back, and does not need the library later.
//
//   capi_unloaded_test LIBBERTH
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/berth.h"

enum { kKeysMax = 65536, kTimes = 3 };

static sem_t has_failed;
static sem_t is_unloaded;

static void check(const char* claim, int holds) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", claim);
  exit(1);
}

struct library {
  void* handle;
  berth_status (*parse)(const char*, berth_device*);
  const char* (*message)(void);
};

/// What dlsym() returns, as a pointer to a function.
static void find(const struct library* library, const char* name, void* function) {
  void* const found = dlsym(library->handle, name);
  check(name, found != NULL);
  memcpy(function, &found, sizeof found);
}

static struct library load(const char* path) {
  struct library library = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (library.handle == NULL) fprintf(stderr, "%s\n", dlerror());
  check("the library can be loaded", library.handle != NULL);
  find(&library, "berth_device_parse", &library.parse);
  find(&library, "berth_last_error_message", &library.message);
  return library;
}

static void unload(const struct library* library, const char* path) {
  check("the library can be closed", dlclose(library->handle) == 0);
  check("the library is unloaded", dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
}

static void fail(const struct library* library, const char* message) {
  berth_device device;
  check("no device", library->parse("no device", &device) == BERTH_INVALID_ARGUMENT);
  check(message, strstr(library->message(), message) != NULL);
}

static size_t take_all_keys(pthread_key_t* keys) {
  size_t count = 0;
  while (count < kKeysMax && pthread_key_create(&keys[count], NULL) == 0) ++count;
  check("the keys of the process are limited", count < kKeysMax);
  return count;
}

static void* outlive(void* library) {
  fail(library, "no device");
  sem_post(&has_failed);
  sem_wait(&is_unloaded);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  static pthread_key_t keys[kKeysMax];
  const size_t count = take_all_keys(keys);

  struct library library = load(argv[1]);
  fail(&library, "could not be kept");
  unload(&library, argv[1]);

  pthread_key_delete(keys[count - 1]);
  for (int time = 0; time < kTimes; ++time) {
    library = load(argv[1]);
    fail(&library, "no device");
    unload(&library, argv[1]);
  }

  library = load(argv[1]);
  sem_init(&has_failed, 0, 0);
  sem_init(&is_unloaded, 0, 0);
  pthread_t thread;
  check("a thread", pthread_create(&thread, NULL, outlive, &library) == 0);
  sem_wait(&has_failed);
  unload(&library, argv[1]);
  sem_post(&is_unloaded);
  check("the thread ends", pthread_join(thread, NULL) == 0);
  return 0;
}
