/* SPDX-License-Identifier: Apache-2.0 */
// MIG instances through the C ABI, on a machine whose second device has two of them.
#include "check.h"

static void check_explained(const char* sentence, const char* beginning) {
  CHECK(strncmp(sentence, beginning, strlen(beginning)) == 0);
}

int main(void) {
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));
  int count = 0;
  CHECK_OK(berth_mig_instance_count(runtime, &count));
  CHECK(count == 2);

  berth_device_info split = BERTH_DEVICE_INFO_INIT;
  CHECK_OK(berth_physical_device_get_info(runtime, 1, &split));
  CHECK(split.flags == BERTH_DEVICE_MIG_MODE);
  CHECK(split.logical == -1);
  CHECK(split.gpu_instance == -1);
  char* sentence = NULL;
  CHECK_OK(berth_physical_device_explain(runtime, 1, &sentence));
  check_explained(sentence, "Hidden: MIG has split it");
  berth_string_free(sentence);
  CHECK_OK(berth_physical_device_explain(runtime, 2, &sentence));
  check_explained(sentence, "Visible as cuda:3");
  berth_string_free(sentence);

  for (int index = 0; index < count; ++index) {
    berth_device_info instance = BERTH_DEVICE_INFO_INIT;
    CHECK_OK(berth_mig_instance_get_info(runtime, index, &instance));
    CHECK(instance.flags == BERTH_DEVICE_MIG_INSTANCE);
    CHECK(instance.physical == 1);
    CHECK(instance.logical == index + 1);
    CHECK(instance.gpu_instance == index + 1);
    CHECK(instance.compute_instance == 0);
    CHECK(strncmp(instance.uuid, "MIG-", 4) == 0);
    CHECK(instance.memory_bytes < split.memory_bytes);
    CHECK_OK(berth_mig_instance_explain(runtime, index, &sentence));
    check_explained(sentence, index == 0 ? "Visible as cuda:1" : "Visible as cuda:2");
    berth_string_free(sentence);

    berth_device_info shown = BERTH_DEVICE_INFO_INIT;
    CHECK_OK(berth_device_get_info(runtime, berth_device_cuda(index + 1), &shown));
    CHECK(strcmp(shown.uuid, instance.uuid) == 0);
  }
  berth_runtime_destroy(runtime);
  return 0;
}
