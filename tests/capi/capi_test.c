/* SPDX-License-Identifier: Apache-2.0 */
// The C ABI as a C program meets it, against the shared library.
#include "check.h"
#include "parts.h"

struct machine open_machine(const berth_runtime_options* options) {
  struct machine machine = {.device = berth_device_cuda(0)};
  CHECK_OK(berth_runtime_create(options, &machine.runtime));
  CHECK_OK(berth_stream_acquire(machine.runtime, machine.device, 0, &machine.stream));
  CHECK_OK(berth_allocator_get_device(machine.runtime, machine.device, &machine.memory));
  CHECK_OK(berth_allocator_get_pinned(machine.runtime, &machine.pinned));
  CHECK_OK(berth_allocator_get_host(machine.runtime, &machine.host));
  return machine;
}

void close_machine(struct machine* machine) {
  CHECK_OK(berth_allocator_validate(machine->memory));
  CHECK_OK(berth_allocator_validate(machine->pinned));
  CHECK_OK(berth_allocator_validate(machine->host));
  CHECK_OK(berth_stream_release(machine->runtime, machine->stream));
  berth_runtime_destroy(machine->runtime);
}

bool work_stays_pending(const struct machine* machine) {
  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_OK(berth_driver_get_info(machine->runtime, &info));
  return strcmp(info.name, "sim") == 0;
}

static int count_devices(void) {
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));
  int count = -1;
  CHECK_OK(berth_device_count(runtime, &count));
  berth_runtime_destroy(runtime);
  return count;
}

int main(void) {
  if (count_devices() == 0) {
    puts("skipped: there is no CUDA device");
    return kExitSkipped;
  }
  test_runtime();
  test_structs();
  test_streams_and_events();
  test_memory();
  test_memory_pools();
  test_shared_memory();
  test_snapshots();
  test_handle_pools();
  test_configuration();
  test_copies();
  test_collectives();
  test_files();
  test_graphs();
  test_statistics();
  test_errors();
  test_null_arguments();
  test_null_backend_arguments();
  test_null_device_arguments();
  test_null_memory_arguments();
  test_null_sharing_arguments();
  test_order();
  test_backend_functions();
  test_device_backend();
  test_device_map();
  test_device_pick();
  test_devices();
  test_same_device();
  return 0;
}
