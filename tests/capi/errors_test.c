/* SPDX-License-Identifier: Apache-2.0 */
// The last failure: whose it is, and how long it stays.
#include <pthread.h>

#include "check.h"
#include "parts.h"

static void fail_with(const char* text) {
  berth_device device;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, text, berth_device_parse(text, &device));
}

static void* fail_on_a_thread_of_its_own(void* unused) {
  (void)unused;
  CHECK(strcmp(berth_last_error_message(), "") == 0);
  CHECK(berth_last_error_driver_code() == 0);
  fail_with("other thread");
  return NULL;
}

static void message_belongs_to_its_thread(void) {
  fail_with("first thread");
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fail_on_a_thread_of_its_own, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strstr(berth_last_error_message(), "first thread") != NULL);
}

static pthread_key_t failing_at_the_end;
static int failures_at_the_end;

static void fail_at_the_end(void* unused) {
  (void)unused;
  fail_with("the end of a thread");
  ++failures_at_the_end;
}

static void* fail_and_end(void* unused) {
  fail_with("before the end");
  CHECK(pthread_setspecific(failing_at_the_end, &failures_at_the_end) == 0);
  return unused;
}

// The key is younger than the messages' own, so those of the thread are gone when it fails.
static void thread_that_ends_keeps_a_message(void) {
  fail_with("makes the key of the messages");
  CHECK(pthread_key_create(&failing_at_the_end, fail_at_the_end) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fail_and_end, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(failures_at_the_end == 1);
  CHECK(pthread_key_delete(failing_at_the_end) == 0);
}

static void message_stays_until_the_next_failure(void) {
  fail_with("kept");
  const char* const message = berth_last_error_message();
  berth_device device;
  CHECK_OK(berth_device_parse("cpu", &device));
  CHECK(berth_last_error_message() == message);
  CHECK(strstr(message, "kept") != NULL);
  fail_with("replaced");
  CHECK(strstr(berth_last_error_message(), "kept") == NULL);
}

static void long_message_is_cut_and_says_so(void) {
  char entries[3000];
  for (size_t i = 0; i < sizeof entries; ++i) entries[i] = i % 2 == 0 ? 'x' : ',';
  entries[sizeof entries - 1] = '\0';
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.configuration = entries;
  berth_runtime* runtime = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"x\"", berth_runtime_create(&options, &runtime));
  const char* const message = berth_last_error_message();
  CHECK(strlen(message) == 1023);
  CHECK(strcmp(message + 1020, "...") == 0);
}

static berth_status parse_two(const char* first, const char* second, int* parsed) {
  berth_device device;
  BERTH_TRY(berth_device_parse(first, &device));
  *parsed += 1;
  BERTH_TRY(berth_device_parse(second, &device));
  *parsed += 1;
  return BERTH_OK;
}

static void try_returns_the_first_failure(void) {
  int parsed = 0;
  CHECK_OK(parse_two("cpu", "cuda:1", &parsed));
  CHECK(parsed == 2);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "first", parse_two("first", "second", &parsed));
  CHECK(parsed == 2);
}

static void library_above_fails_as_berth_does(void) {
  fail_with("of berth");
  CHECK_FAILS(BERTH_FILE, "of the library", berth_last_error_set(BERTH_FILE, "of the library"));
  CHECK(strcmp(berth_last_error_message(), "of the library") == 0);
  CHECK(berth_last_error_driver_code() == 0);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"status\" is BERTH_OK",
              berth_last_error_set(BERTH_OK, "no failure"));
  char text[3000];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "xx...", berth_last_error_set(BERTH_INVALID_ARGUMENT, text));
}

void test_errors(void) {
  try_returns_the_first_failure();
  library_above_fails_as_berth_does();
  message_belongs_to_its_thread();
  thread_that_ends_keeps_a_message();
  message_stays_until_the_next_failure();
  long_message_is_cut_and_says_so();
}
