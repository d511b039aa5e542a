/* SPDX-License-Identifier: Apache-2.0 */
// Where a checkpoint's tensors go, in C: by text and by a function.
#include "check.h"
#include "parts.h"

static bool is(berth_device device, int type, int ordinal) {
  return device.type == type && device.ordinal == ordinal;
}

static void text_says_where_each_device_goes(berth_runtime* runtime) {
  berth_device_map* map = NULL;
  CHECK_OK(berth_device_map_parse("cuda:1=cpu,cuda:5=cuda:0", &map));
  berth_device target = berth_device_cuda(9);
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(1), &target));
  CHECK(is(target, BERTH_DEVICE_CPU, 0));
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(5), &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 0));
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(7), &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 7));
  const berth_device no_device = {BERTH_DEVICE_CUDA, -5};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"saved\"", berth_device_map_find(map, no_device, &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 7));

  const berth_device saved[] = {berth_device_cuda(5), berth_device_cuda(1), berth_device_cuda(99)};
  CHECK_OK(berth_device_map_check(map, runtime, saved, 2));
  CHECK_OK(berth_device_map_check(map, runtime, NULL, 0));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cuda:99", berth_device_map_check(map, runtime, saved, 3));
  berth_device_map_release(map);
}

static void text_that_is_no_map_is_quoted(void) {
  berth_device_map* map = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"gpu=cpu\"", berth_device_map_parse("gpu=cpu", &map));
  CHECK(map == NULL);
}

static berth_device one_down(void* user, berth_device saved) {
  ++*(int*)user;
  saved.ordinal -= 1;
  return saved;
}

static berth_device nowhere(void* user, berth_device saved) {
  (void)user;
  saved.type = 77;
  return saved;
}

static void function_is_asked_each_time(void) {
  int asked = 0;
  berth_device_map* map = NULL;
  CHECK_OK(berth_device_map_create(one_down, &asked, &map));
  berth_device target = berth_device_cpu();
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(3), &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 2));
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(3), &target));
  CHECK(asked == 2);
  berth_device_map_release(map);
  berth_device_map_release(NULL);

  CHECK_OK(berth_device_map_create(nowhere, NULL, &map));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"what the function returned\"",
              berth_device_map_find(map, berth_device_cuda(3), &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 2));
  berth_device_map_release(map);
}

static void table_says_where_each_device_goes(void) {
  const berth_device_map_entry entries[] = {{berth_device_cuda(1), berth_device_cpu()},
                                            {berth_device_cuda(2), berth_device_cuda(0)}};
  berth_device_map* map = NULL;
  CHECK_OK(berth_device_map_create_table(entries, 2, &map));
  berth_device target = berth_device_cuda(9);
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(1), &target));
  CHECK(is(target, BERTH_DEVICE_CPU, 0));
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(3), &target));
  CHECK(is(target, BERTH_DEVICE_CUDA, 3));
  berth_device_map_release(map);
  CHECK_OK(berth_device_map_create_table(NULL, 0, &map));
  berth_device_map_release(map);

  CHECK_OK(berth_device_map_create_all(berth_device_cpu(), &map));
  CHECK_OK(berth_device_map_find(map, berth_device_cuda(3), &target));
  CHECK(is(target, BERTH_DEVICE_CPU, 0));
  berth_device_map_release(map);
  const berth_device_map_entry twice[] = {entries[0], entries[0]};
  map = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "twice", berth_device_map_create_table(twice, 2, &map));
  CHECK(map == NULL);
}

void test_device_map(void) {
  berth_runtime* runtime = NULL;
  CHECK_OK(berth_runtime_create(NULL, &runtime));
  text_says_where_each_device_goes(runtime);
  text_that_is_no_map_is_quoted();
  function_is_asked_each_time();
  table_says_where_each_device_goes();
  berth_runtime_destroy(runtime);
}
