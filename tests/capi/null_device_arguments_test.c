/* SPDX-License-Identifier: Apache-2.0 */
// Null for each parameter, as in null_arguments_test.c: what is about devices, and takes no stream.
#include "check.h"
#include "parts.h"

static void device_functions(berth_runtime* runtime) {
  const berth_device cpu = berth_device_cpu();
  berth_device device;
  berth_device_info device_info = BERTH_DEVICE_INFO_INIT;
  berth_memory_info memory_info = BERTH_MEMORY_INFO_INIT;
  berth_device_guard* guard = NULL;
  const char* problem = NULL;
  char* text = NULL;
  int count = 0;
  CHECK_REFUSED("name", berth_device_type_register(NULL, &count));
  CHECK_REFUSED("type", berth_device_type_register("npu", NULL));
  CHECK_REFUSED("count", berth_device_type_count(NULL));
  CHECK_REFUSED("name", berth_device_type_get_name(BERTH_DEVICE_CPU, NULL));
  CHECK_REFUSED("text", berth_device_parse(NULL, &device));
  CHECK_REFUSED("device", berth_device_parse("cpu", NULL));
  CHECK_REFUSED("text", berth_device_format(cpu, NULL));
  CHECK_REFUSED("runtime", berth_device_count(NULL, &count));
  CHECK_REFUSED("count", berth_device_count(runtime, NULL));
  CHECK_REFUSED("runtime", berth_device_resolve(NULL, cpu, &device));
  CHECK_REFUSED("resolved", berth_device_resolve(runtime, cpu, NULL));
  CHECK_REFUSED("runtime", berth_device_get_current(NULL, &device));
  CHECK_REFUSED("device", berth_device_get_current(runtime, NULL));
  CHECK_REFUSED("runtime", berth_device_set_current(NULL, cpu));
  CHECK_REFUSED("runtime", berth_device_get_info(NULL, cpu, &device_info));
  CHECK_REFUSED("info", berth_device_get_info(runtime, cpu, NULL));
  CHECK_REFUSED("runtime", berth_device_get_memory_info(NULL, cpu, &memory_info));
  CHECK_REFUSED("info", berth_device_get_memory_info(runtime, cpu, NULL));
  CHECK_REFUSED("runtime", berth_physical_device_count(NULL, &count));
  CHECK_REFUSED("count", berth_physical_device_count(runtime, NULL));
  CHECK_REFUSED("runtime", berth_physical_device_get_info(NULL, 0, &device_info));
  CHECK_REFUSED("info", berth_physical_device_get_info(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_mig_instance_count(NULL, &count));
  CHECK_REFUSED("count", berth_mig_instance_count(runtime, NULL));
  CHECK_REFUSED("runtime", berth_mig_instance_get_info(NULL, 0, &device_info));
  CHECK_REFUSED("info", berth_mig_instance_get_info(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_physical_device_explain(NULL, 0, &text));
  CHECK_REFUSED("sentence", berth_physical_device_explain(runtime, 0, NULL));
  CHECK_REFUSED("runtime", berth_mig_instance_explain(NULL, 0, &text));
  CHECK_REFUSED("sentence", berth_mig_instance_explain(runtime, 0, NULL));
  const berth_device cuda = berth_device_cuda(0);
  berth_device_facts facts = BERTH_DEVICE_FACTS_INIT;
  berth_peer_facts peer = BERTH_PEER_FACTS_INIT;
  berth_device_memory_use use = BERTH_DEVICE_MEMORY_USE_INIT;
  CHECK_REFUSED("runtime", berth_device_get_facts(NULL, cuda, &facts));
  CHECK_REFUSED("facts", berth_device_get_facts(runtime, cuda, NULL));
  CHECK_REFUSED("runtime", berth_device_get_peer_facts(NULL, cuda, cuda, &peer));
  CHECK_REFUSED("facts", berth_device_get_peer_facts(runtime, cuda, cuda, NULL));
  CHECK_REFUSED("runtime", berth_device_enable_peer_access(NULL, cuda, cuda));
  CHECK_REFUSED("runtime", berth_device_get_memory_use(NULL, cuda, &use, NULL, 0));
  CHECK_REFUSED("use", berth_device_get_memory_use(runtime, cuda, NULL, NULL, 0));
  CHECK_REFUSED("processes", berth_device_get_memory_use(runtime, cuda, &use, NULL, 1));
  CHECK_REFUSED("runtime", berth_device_get_utilization(NULL, cuda, &count));
  CHECK_REFUSED("percent", berth_device_get_utilization(runtime, cuda, NULL));
  CHECK_REFUSED("runtime", berth_nvml_get_problem(NULL, &problem));
  CHECK_REFUSED("problem", berth_nvml_get_problem(runtime, NULL));
  CHECK_REFUSED("runtime", berth_device_pick(NULL, BERTH_PICK_LEAST_USED, &device));
  CHECK_REFUSED("picked", berth_device_pick(runtime, BERTH_PICK_LEAST_USED, NULL));
  CHECK_REFUSED("runtime", berth_device_find(NULL, "GPU-0", &device));
  CHECK_REFUSED("uuid", berth_device_find(runtime, NULL, &device));
  CHECK_REFUSED("found", berth_device_find(runtime, "GPU-0", NULL));
  CHECK_REFUSED("rank", berth_local_rank_get(NULL, &problem));
  CHECK_REFUSED("variable", berth_local_rank_get(&count, NULL));
  CHECK_REFUSED("runtime", berth_visible_devices_get_problem(NULL, &problem));
  CHECK_REFUSED("problem", berth_visible_devices_get_problem(runtime, NULL));
  CHECK_REFUSED("operation", berth_require_same_device(NULL, NULL, 0, NULL));
  CHECK_REFUSED("arguments", berth_require_same_device("add", NULL, 1, NULL));
  CHECK_REFUSED("runtime", berth_device_guard_enter(NULL, cpu, &guard));
  CHECK_REFUSED("guard", berth_device_guard_enter(runtime, berth_device_cuda(0), NULL));
  CHECK(text == NULL && count == 0 && problem == NULL && guard == NULL);
}

static berth_device stays(void* user, berth_device saved) {
  (void)user;
  return saved;
}

static void device_map_functions(berth_runtime* runtime) {
  const berth_device cuda = berth_device_cuda(0);
  berth_device device = cuda;
  berth_device_map* device_map = NULL;
  CHECK_REFUSED("text", berth_device_map_parse(NULL, &device_map));
  CHECK_REFUSED("map", berth_device_map_parse("*=cpu", NULL));
  CHECK_REFUSED("function", berth_device_map_create(NULL, NULL, &device_map));
  CHECK_REFUSED("map", berth_device_map_create(stays, NULL, NULL));
  CHECK_REFUSED("map", berth_device_map_find(NULL, cuda, &device));
  CHECK_OK(berth_device_map_parse("*=cpu", &device_map));
  CHECK_REFUSED("target", berth_device_map_find(device_map, cuda, NULL));
  CHECK_REFUSED("map", berth_device_map_check(NULL, runtime, &cuda, 1));
  CHECK_REFUSED("runtime", berth_device_map_check(device_map, NULL, &cuda, 1));
  CHECK_REFUSED("saved", berth_device_map_check(device_map, runtime, NULL, 1));
  berth_device_map_release(device_map);
}

void test_null_device_arguments(void) {
  struct machine machine = open_machine(NULL);
  device_functions(machine.runtime);
  device_map_functions(machine.runtime);
  close_machine(&machine);
}
