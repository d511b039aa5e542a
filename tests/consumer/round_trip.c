/* SPDX-License-Identifier: Apache-2.0 */
// An outside C program: sends bytes to a device and back, and prints the version that it ran on.
#include <berth/berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(berth_status status, const char* what) {
  if (status == BERTH_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, berth_status_name(status), berth_last_error_message());
  exit(1);
}

int main(void) {
  berth_runtime* runtime = NULL;
  require(berth_runtime_create(NULL, &runtime), "create");

  berth_device device;
  berth_stream stream;
  berth_allocator* allocator = NULL;
  require(berth_device_parse("cuda:0", &device), "parse");
  require(berth_stream_acquire(runtime, device, 0, &stream), "acquire");
  require(berth_allocator_get_device(runtime, device, &allocator), "allocator");

  const char sent[] = "there and back";
  char received[sizeof sent] = {0};
  void* data = NULL;
  require(berth_allocator_allocate(allocator, sizeof sent, stream, &data), "allocate");
  require(berth_copy_async(runtime, data, sent, sizeof sent, stream), "copy to the device");
  require(berth_copy_sync(runtime, received, data, sizeof sent, stream), "copy back");
  require(berth_allocator_deallocate(allocator, data), "deallocate");
  require(berth_stream_release(runtime, stream), "release");
  berth_runtime_destroy(runtime);

  if (memcmp(sent, received, sizeof sent) != 0) {
    fprintf(stderr, "sent \"%s\", received \"%.*s\"\n", sent, (int)sizeof received, received);
    return 1;
  }
  const int version = berth_version();
  printf("%d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  return 0;
}
