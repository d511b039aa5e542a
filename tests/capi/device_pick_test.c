/* SPDX-License-Identifier: Apache-2.0 */
// Which device to use, in C: by use, by free memory, by local rank, and by UUID.
#define _POSIX_C_SOURCE 200112L  // setenv()

#include <stdlib.h>

#include "check.h"
#include "parts.h"

static bool is_cuda(berth_device device, int ordinal) {
  return device.type == BERTH_DEVICE_CUDA && device.ordinal == ordinal;
}

static void device_is_picked_by_use_and_free_memory(berth_runtime* runtime) {
  berth_device picked = berth_device_cpu();
  CHECK_OK(berth_device_pick(runtime, BERTH_PICK_LEAST_USED, &picked));
  CHECK(is_cuda(picked, 0));
  picked = berth_device_cpu();
  CHECK_OK(berth_device_pick(runtime, BERTH_PICK_MOST_FREE_MEMORY, &picked));
  CHECK(is_cuda(picked, 0));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"preference\" is 3; accepted: BERTH_PICK_LEAST_USED",
              berth_device_pick(runtime, 3, &picked));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"preference\" is -1",
              berth_device_pick(runtime, -1, &picked));
}

static void device_is_picked_by_local_rank(berth_runtime* runtime, int count) {
  int rank = 0;
  const char* variable = NULL;
  berth_device picked = berth_device_cpu();
  CHECK(setenv("LOCAL_RANK", "1", 1) == 0);
  CHECK_OK(berth_local_rank_get(&rank, &variable));
  CHECK(rank == 1 && strcmp(variable, "LOCAL_RANK") == 0);
  if (count > 1) {
    CHECK_OK(berth_device_pick(runtime, BERTH_PICK_LOCAL_RANK, &picked));
    CHECK(is_cuda(picked, 1));
  }
  CHECK(setenv("LOCAL_RANK", "one", 1) == 0);
  picked = berth_device_cpu();
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "LOCAL_RANK=\"one\"",
              berth_device_pick(runtime, BERTH_PICK_LOCAL_RANK, &picked));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "LOCAL_RANK=\"one\"", berth_local_rank_get(&rank, &variable));
  CHECK(rank == 1 && picked.type == BERTH_DEVICE_CPU);
  CHECK(unsetenv("LOCAL_RANK") == 0);
}

static void device_is_found_by_its_uuid(berth_runtime* runtime, int count) {
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    berth_device_info info = BERTH_DEVICE_INFO_INIT;
    CHECK_OK(berth_device_get_info(runtime, berth_device_cuda(ordinal), &info));
    berth_device found = berth_device_cpu();
    CHECK_OK(berth_device_find(runtime, info.uuid, &found));
    CHECK(is_cuda(found, ordinal));
  }
  berth_device found = berth_device_cpu();
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"GPU-none\" matches no device",
              berth_device_find(runtime, "GPU-none", &found));
  CHECK(found.type == BERTH_DEVICE_CPU);
}

static void what_nvml_does_not_tell_is_unknown(berth_runtime* runtime) {
  const char* problem = NULL;
  CHECK_OK(berth_nvml_get_problem(runtime, &problem));
  CHECK(strcmp(problem, "") == 0);
  int percent = 0;  // the simulator computes nothing, and says that it does not know
  CHECK_OK(berth_device_get_utilization(runtime, berth_device_cuda(0), &percent));
  CHECK(percent == -1);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cpu",
              berth_device_get_utilization(runtime, berth_device_cpu(), &percent));
}

void test_device_pick(void) {
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));
  int count = 0;
  CHECK_OK(berth_device_count(runtime, &count));
  device_is_picked_by_use_and_free_memory(runtime);
  device_is_picked_by_local_rank(runtime, count);
  device_is_found_by_its_uuid(runtime, count);
  what_nvml_does_not_tell_is_unknown(runtime);
  berth_runtime_destroy(runtime);
}
