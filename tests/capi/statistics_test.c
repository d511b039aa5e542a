/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

void test_statistics(void) {
  struct machine machine = open_machine(NULL);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, 12345, machine.stream, &data));

  char* json = NULL;
  CHECK_OK(berth_statistics_to_json(machine.runtime, &json));
  CHECK(json[0] == '{' && strchr("}\n", json[strlen(json) - 1]) != NULL);
  CHECK(strstr(json, "\"bytes_requested\"") != NULL);
  CHECK(strstr(json, "12345") != NULL);
  CHECK(strstr(json, "\"driver_calls\"") != NULL);
  berth_string_free(json);

  berth_driver_info info = BERTH_DRIVER_INFO_INIT;
  CHECK_OK(berth_driver_get_info(machine.runtime, &info));
  char* text = NULL;
  CHECK_OK(berth_statistics_to_text(machine.runtime, &text));
  CHECK(strstr(text, info.name) != NULL);
  CHECK(strstr(text, "cuda:0") != NULL);
  berth_string_free(text);

  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
}
