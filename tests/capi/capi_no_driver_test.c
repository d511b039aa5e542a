/* SPDX-License-Identifier: Apache-2.0 */
// Where the driver that BERTH_DRIVER names is not there, everything answers and nothing pretends.
#include "check.h"

int main(void) {
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));

  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_OK(berth_driver_get_info(runtime, &info));
  CHECK(info.usable == 0);
  CHECK(info.version == 0);
  CHECK(strcmp(info.name, getenv("BERTH_DRIVER")) == 0);
  CHECK(strlen(info.problem) > 0);

  int count = -1;
  CHECK_OK(berth_device_count(runtime, &count));
  CHECK(count == 0);
  berth_stream stream;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cuda:0",
              berth_stream_acquire(runtime, berth_device_cuda(0), 0, &stream));
  berth_allocator* allocator = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cuda:0",
              berth_allocator_get_device(runtime, berth_device_cuda(0), &allocator));
  void* data = NULL;
  CHECK_OK(berth_allocator_get_pinned(runtime, &allocator));
  CHECK_FAILS(BERTH_NOT_SUPPORTED, "", berth_allocator_allocate_pinned(allocator, 1, &data));
  CHECK(data == NULL);
  CHECK_OK(berth_allocator_get_host(runtime, &allocator));
  CHECK_OK(berth_allocator_allocate_host(allocator, 100, &data));
  CHECK_OK(berth_copy_host(runtime, data, "bytes of the host", 18));
  CHECK(strcmp(data, "bytes of the host") == 0);
  CHECK_OK(berth_allocator_deallocate(allocator, data));

  berth_memory_info memory = BERTH_MEMORY_INFO_INIT;
  CHECK_OK(berth_device_get_memory_info(runtime, berth_device_cpu(), &memory));
  CHECK(memory.bytes_total > 0);
  char* json = NULL;
  CHECK_OK(berth_statistics_to_json(runtime, &json));
  CHECK(strstr(json, info.name) != NULL);
  berth_string_free(json);
  berth_runtime_destroy(runtime);
  return 0;
}
