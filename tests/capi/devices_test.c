/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

static void check_device(berth_device device, int type, int ordinal) {
  CHECK(device.type == type);
  CHECK(device.ordinal == ordinal);
}

static void text_becomes_a_device_and_back(int npu) {
  const struct {
    const char* text;
    int type;
    int ordinal;
  } cases[] = {{"cpu", BERTH_DEVICE_CPU, 0},
               {"cuda", BERTH_DEVICE_CUDA, -1},
               {"cuda:2147483647", BERTH_DEVICE_CUDA, 2147483647},
               {"npu", npu, -1},
               {"npu:3", npu, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    berth_device device = {-7, -7};
    CHECK_OK(berth_device_parse(cases[i].text, &device));
    check_device(device, cases[i].type, cases[i].ordinal);
    char* text = NULL;
    CHECK_OK(berth_device_format(device, &text));
    CHECK(strcmp(text, cases[i].text) == 0);
    berth_string_free(text);
  }
  berth_device same = {-7, -7};
  CHECK_OK(berth_device_parse("cpu:0", &same));
  check_device(same, BERTH_DEVICE_CPU, 0);
  CHECK(berth_device_is_cpu(same) && berth_device_is_same(same, berth_device_cpu()));
  CHECK(!berth_device_is_cpu(berth_device_cuda(0)));
  CHECK(!berth_device_is_same(berth_device_cuda(0), berth_device_cuda(1)));
  CHECK(!berth_device_is_same(berth_device_cuda(0), same));
}

static void bad_text_is_quoted_and_changes_nothing(void) {
  berth_device device = {-7, -7};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"cuda:-1\"", berth_device_parse("cuda:-1", &device));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "perhaps \"cuda:1\"", berth_device_parse("gpu:1", &device));
  check_device(device, -7, -7);
}

static void registered_type_has_a_number_and_a_name(int npu) {
  int same = -7;
  CHECK_OK(berth_device_type_register("npu", &same));
  CHECK(same == npu);
  int count = 0;
  CHECK_OK(berth_device_type_count(&count));
  CHECK(npu >= 2 && npu < count);
  const char* name = NULL;
  CHECK_OK(berth_device_type_get_name(npu, &name));
  CHECK(strcmp(name, "npu") == 0);
  CHECK_OK(berth_device_type_get_name(BERTH_DEVICE_CPU, &name));
  CHECK(strcmp(name, "cpu") == 0);

  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"NPU\"", berth_device_type_register("NPU", &same));
  CHECK(same == npu);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"type\"", berth_device_type_get_name(count, &name));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"type\"", berth_device_type_get_name(-1, &name));
  CHECK(strcmp(name, "cpu") == 0);
}

static void numbers_that_name_no_device_are_refused(berth_runtime* runtime, int npu) {
  int count = 0;
  CHECK_OK(berth_device_type_count(&count));
  const berth_device refused[] = {{BERTH_DEVICE_CPU, 1},
                                  {BERTH_DEVICE_CPU, -1},
                                  {BERTH_DEVICE_CUDA, -2},
                                  {npu, -2},
                                  {count, 0},
                                  {-1, 0}};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
    berth_device device = {-7, -7};
    CHECK_FAILS(BERTH_INVALID_ARGUMENT, "type", berth_device_resolve(runtime, refused[i], &device));
    check_device(device, -7, -7);
  }
}

static void device_of_a_registered_type_is_not_berths(berth_runtime* runtime, int npu) {
  const berth_device there = {npu, 0};
  berth_device device = {-7, -7};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "npu:0", berth_device_resolve(runtime, there, &device));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "npu:0", berth_device_set_current(runtime, there));
  check_device(device, -7, -7);
}

static void device_resolves_if_it_exists(berth_runtime* runtime, int count) {
  berth_device device;
  CHECK_OK(berth_device_resolve(runtime, berth_device_cpu(), &device));
  check_device(device, BERTH_DEVICE_CPU, 0);
  CHECK_OK(berth_device_resolve(runtime, berth_device_cuda(count - 1), &device));
  check_device(device, BERTH_DEVICE_CUDA, count - 1);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT,
              "cuda:", berth_device_resolve(runtime, berth_device_cuda(count), &device));
}

static void check_current(berth_runtime* runtime, int ordinal) {
  berth_device device;
  CHECK_OK(berth_device_get_current(runtime, &device));
  check_device(device, BERTH_DEVICE_CUDA, ordinal);
  CHECK_OK(berth_device_resolve(runtime, berth_device_cuda(-1), &device));
  check_device(device, BERTH_DEVICE_CUDA, ordinal);
}

static void current_device_is_what_was_set_and_guarded(berth_runtime* runtime, int count) {
  const int last = count - 1;
  CHECK_OK(berth_device_set_current(runtime, berth_device_cuda(last)));
  check_current(runtime, last);

  berth_device_guard* outer = NULL;
  berth_device_guard* inner = NULL;
  CHECK_OK(berth_device_guard_enter(runtime, berth_device_cuda(0), &outer));
  CHECK_OK(berth_device_guard_enter(runtime, berth_device_cuda(last), &inner));
  check_current(runtime, last);
  berth_device_guard_leave(inner);
  check_current(runtime, 0);
  berth_device_guard_leave(outer);
  check_current(runtime, last);
  berth_device_guard_leave(NULL);

  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cpu", berth_device_set_current(runtime, berth_device_cpu()));
  check_current(runtime, last);
  CHECK_OK(berth_device_set_current(runtime, berth_device_cuda(0)));
}

static void visible_device_is_one_of_the_physical_ones(berth_runtime* runtime) {
  berth_device_info visible = BERTH_DEVICE_INFO_INIT;
  CHECK_OK(berth_device_get_info(runtime, berth_device_cuda(0), &visible));
  CHECK(visible.logical == 0);
  CHECK(strncmp(visible.uuid, "GPU-", 4) == 0);
  CHECK(strlen(visible.name) > 0);
  CHECK(strchr(visible.pci_bus_id, ':') != NULL);
  CHECK(visible.memory_bytes > 0);

  int physical_count = 0;
  CHECK_OK(berth_physical_device_count(runtime, &physical_count));
  CHECK(visible.physical < physical_count);
  berth_device_info physical = BERTH_DEVICE_INFO_INIT;
  CHECK_OK(berth_physical_device_get_info(runtime, visible.physical, &physical));
  CHECK(strcmp(physical.uuid, visible.uuid) == 0);
  CHECK(physical.logical == 0);

  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"physical\"",
              berth_physical_device_get_info(runtime, physical_count, &physical));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"physical\"",
              berth_physical_device_get_info(runtime, -1, &physical));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cpu",
              berth_device_get_info(runtime, berth_device_cpu(), &physical));
}

static void devices_are_explained(berth_runtime* runtime, int count) {
  char* sentence = NULL;
  CHECK_OK(berth_physical_device_explain(runtime, 0, &sentence));
  CHECK(strncmp(sentence, "Visible as cuda:", 16) == 0);
  berth_string_free(sentence);
  sentence = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"physical\"",
              berth_physical_device_explain(runtime, -1, &sentence));
  CHECK(count > 0 && sentence == NULL);

  int instances = -1;
  CHECK_OK(berth_mig_instance_count(runtime, &instances));
  berth_device_info info = BERTH_DEVICE_INFO_INIT;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"index\"",
              berth_mig_instance_get_info(runtime, instances, &info));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"index\"",
              berth_mig_instance_explain(runtime, instances, &sentence));
}

static void memory_is_said_for_the_device_and_the_machine(berth_runtime* runtime) {
  const berth_device devices[] = {berth_device_cpu(), berth_device_cuda(0)};
  for (size_t i = 0; i < 2; ++i) {
    berth_memory_info info = BERTH_MEMORY_INFO_INIT;
    CHECK_OK(berth_device_get_memory_info(runtime, devices[i], &info));
    CHECK(info.bytes_total > 0);
    CHECK(info.bytes_free <= info.bytes_total);
  }
}

static void facts_are_those_of_the_device(berth_runtime* runtime, int count) {
  const berth_device last = berth_device_cuda(count - 1);
  berth_device_facts facts = BERTH_DEVICE_FACTS_INIT;
  CHECK_OK(berth_device_get_facts(runtime, last, &facts));
  CHECK(facts.compute_capability_major > 0);
  CHECK(facts.multiprocessors > 0);
  CHECK(facts.compute_mode != BERTH_COMPUTE_MODE_PROHIBITED);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cpu",
              berth_device_get_facts(runtime, berth_device_cpu(), &facts));

  berth_peer_facts peer = BERTH_PEER_FACTS_INIT;
  CHECK_OK(berth_device_get_peer_facts(runtime, last, last, &peer));
  CHECK(peer.access == 1 && peer.native_atomics == 1 && peer.performance_rank == 0);
  CHECK(peer.link == BERTH_PEER_LINK_SAME_DEVICE);
  if (count > 1) {
    CHECK_OK(berth_device_get_peer_facts(runtime, berth_device_cuda(0), last, &peer));
    CHECK(peer.link != BERTH_PEER_LINK_SAME_DEVICE);
    CHECK_OK(berth_device_enable_peer_access(runtime, berth_device_cuda(0), last));
  }
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "accepted: two devices",
              berth_device_enable_peer_access(runtime, last, last));
  CHECK(berth_toolkit_version() >= 11040);
}

static void memory_use_counts_this_process(berth_runtime* runtime) {
  const berth_device device = berth_device_cuda(0);
  CHECK_OK(berth_device_set_current(runtime, device));
  berth_device_memory_use use = BERTH_DEVICE_MEMORY_USE_INIT;
  CHECK_OK(berth_device_get_memory_use(runtime, device, &use, NULL, 0));
  CHECK(use.bytes_total == UINT64_MAX || use.bytes_used <= use.bytes_total);
  CHECK(use.process_count > 0);
  berth_process_memory process = {0, 0};
  CHECK_OK(berth_device_get_memory_use(runtime, device, &use, &process, 1));
  CHECK(use.process_count == UINT64_MAX || process.pid != 0);
}

void test_devices(void) {
  int npu = -1;
  CHECK_OK(berth_device_type_register("npu", &npu));
  text_becomes_a_device_and_back(npu);
  bad_text_is_quoted_and_changes_nothing();
  registered_type_has_a_number_and_a_name(npu);

  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));
  int count = 0;
  CHECK_OK(berth_device_count(runtime, &count));
  numbers_that_name_no_device_are_refused(runtime, npu);
  device_of_a_registered_type_is_not_berths(runtime, npu);
  device_resolves_if_it_exists(runtime, count);
  current_device_is_what_was_set_and_guarded(runtime, count);
  visible_device_is_one_of_the_physical_ones(runtime);
  devices_are_explained(runtime, count);
  facts_are_those_of_the_device(runtime, count);
  memory_use_counts_this_process(runtime);
  memory_is_said_for_the_device_and_the_machine(runtime);
  const char* problem = NULL;
  CHECK_OK(berth_visible_devices_get_problem(runtime, &problem));
  CHECK(strcmp(problem, "") == 0);
  berth_runtime_destroy(runtime);
}
