/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L  // setenv()

// Options as text, and numbers of a runtime that has them, in C.
#include "check.h"
#include "parts.h"

/// A runtime with that configuration, whose own text is `*text`.
static berth_runtime* create(const char* configuration, uint64_t flags, char** text) {
  berth_runtime_options options = BERTH_RUNTIME_OPTIONS_INIT;
  options.configuration = configuration;
  options.flags = flags;
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(&options, &runtime));
  CHECK_OK(berth_runtime_get_configuration(runtime, text));
  return runtime;
}

static void configuration_can_be_read_back(void) {
  char* text = NULL;
  char* again = NULL;
  berth_runtime_destroy(create("streams_max=7", 0, &text));
  CHECK(strstr(text, "streams_max=7") != NULL);
  berth_runtime_destroy(create(text, 0, &again));
  CHECK(strcmp(text, again) == 0);
  berth_string_free(text);
  berth_string_free(again);
}

static void environment_can_be_ignored(void) {
  CHECK(setenv("BERTH_CONF", "streams_max=9", 1) == 0);
  char* text = NULL;
  berth_runtime_destroy(create("streams_max=7", 0, &text));
  CHECK(strstr(text, "streams_max=9") != NULL);
  berth_string_free(text);
  berth_runtime_destroy(create("streams_max=7", BERTH_RUNTIME_IGNORE_ENVIRONMENT, &text));
  CHECK(strstr(text, "streams_max=7") != NULL);
  berth_string_free(text);
  CHECK(unsetenv("BERTH_CONF") == 0);
}

static void settings_of_pytorch_become_a_configuration(void) {
  char* configuration = NULL;
  char* remarks = NULL;
  CHECK_OK(berth_configuration_from_pytorch(
      "expandable_segments:False,per_process_memory_fraction:0.5", &configuration, &remarks));
  CHECK(strstr(configuration, "50%") != NULL && strstr(configuration, "streams_max") == NULL);
  char* text = NULL;
  berth_runtime_destroy(create(configuration, 0, &text));
  CHECK(strstr(text, "50%") != NULL);
  berth_string_free(text);
  berth_string_free(configuration);
  berth_string_free(remarks);
  configuration = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "no_such_key",
              berth_configuration_from_pytorch("no_such_key:1", &configuration, &remarks));
  CHECK(configuration == NULL);
}

static void parts_of_a_device_become_bytes(const struct machine* machine) {
  berth_memory_info info = BERTH_MEMORY_INFO_INIT;
  CHECK_OK(berth_device_get_memory_info(machine->runtime, machine->device, &info));
  size_t bytes = 0;
  CHECK_OK(berth_device_get_bytes_of_part(machine->runtime, machine->device, 0.5, &bytes));
  CHECK(bytes == info.bytes_total / 2);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "1.5",
              berth_device_get_bytes_of_part(machine->runtime, machine->device, 1.5, &bytes));
}

static void pools_and_queues_are_counted(const struct machine* machine) {
  size_t created = 0, live = 0, outstanding = 7;
  CHECK_OK(berth_stream_pool_get_counts(machine->runtime, machine->device, &created, &live));
  CHECK(created >= 1 && live == 1);  // machine->stream
  berth_event event;
  CHECK_OK(berth_event_acquire(machine->runtime, machine->device, 0, &event));
  CHECK_OK(berth_event_pool_get_counts(machine->runtime, machine->device, &created, &live));
  CHECK(created >= 1 && live == 1);
  CHECK_OK(berth_event_release(machine->runtime, event));
  CHECK_OK(berth_event_pool_get_counts(machine->runtime, machine->device, NULL, &live));
  CHECK(live == 0);
  CHECK_OK(berth_completions_get_outstanding(machine->runtime, &outstanding));
  CHECK(outstanding == 0);
}

static void visible_devices_are_as_they_were_read(const struct machine* machine) {
  const char* const now = getenv("CUDA_VISIBLE_DEVICES");
  const char* text = "?";
  CHECK_OK(berth_visible_devices_get(machine->runtime, &text));
  CHECK(now == NULL ? text == NULL : strcmp(text, now) == 0);
}

void test_configuration(void) {
  configuration_can_be_read_back();
  environment_can_be_ignored();
  settings_of_pytorch_become_a_configuration();
  struct machine machine = open_machine(NULL);
  parts_of_a_device_become_bytes(&machine);
  pools_and_queues_are_counted(&machine);
  visible_devices_are_as_they_were_read(&machine);
  close_machine(&machine);
}
