/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulator.h"
#include "tensor.h"

// Prints the error of a call that fails.
static void show_error(berth_status status) {
  if (status != BERTH_OK) printf("error: %s\n", berth_last_error_message());
}

static void require(berth_status status) {
  show_error(status);
  if (status != BERTH_OK) exit(1);
}

static void print_device(const char* what, berth_device device) {
  char* text = NULL;
  require(berth_device_format(device, &text));
  printf("%s on %s\n", what, text);
  berth_string_free(text);
}

static void devices(library* lib) {
  int count = 0;
  berth_device device;
  require(berth_device_count(lib->runtime, &count));
  printf("%d devices\n", count);
  show_error(berth_device_parse("gpu:0", &device));
  show_error(berth_device_set_current(lib->runtime, berth_device_cuda(2)));
}

static void arithmetic(library* lib) {
  const float values[4] = {1, 2, 3, 4};
  tensor a, there, sum, product, back;
  require(tensor_new(lib, 2, 2, berth_device_cpu(), false, &a));
  memcpy(tensor_numbers(lib, &a, true), values, tensor_bytes(&a));
  require(module_copy(lib, &a, 1, berth_device_cuda(1), false, &there));
  require(tensor_add(lib, &there, &there, &sum));
  require(tensor_multiply(lib, &sum, &there, &product));
  require(module_copy(lib, &product, 1, berth_device_cpu(), false, &back));
  const float* const result = tensor_numbers(lib, &back, false);
  printf("%g %g %g %g\n", result[0], result[1], result[2], result[3]);
  show_error(tensor_add(lib, &a, &there, &sum));
  show_error(tensor_add(lib, &there, &a, &sum));
  show_error(tensor_new(lib, 1L << 40, 1L << 40, berth_device_cpu(), false, &sum));
  tensor half, more, less;  // a single number may be on the CPU
  require(tensor_new(lib, 1, 1, berth_device_cpu(), false, &half));
  *tensor_numbers(lib, &half, true) = 0.5F;
  require(tensor_add(lib, &half, &there, &more));
  require(tensor_add(lib, &more, &half, &less));
  tensor_free(&back);
  require(module_copy(lib, &less, 1, berth_device_cpu(), false, &back));
  printf("%g on cuda:%d\n", tensor_numbers(lib, &back, false)[3], less.device.ordinal);
  tensor* const all[] = {&a, &there, &sum, &product, &back, &half, &more, &less};
  for (size_t index = 0; index < sizeof all / sizeof *all; ++index) tensor_free(all[index]);
}

static void modules(library* lib) {
  tensor model[2];
  require(tensor_new(lib, 8, 4, berth_device_cpu(), false, &model[0]));
  require(tensor_new(lib, 1, 4, berth_device_cpu(), false, &model[1]));
  model[0].name = "weight";
  model[1].name = "bias";
  require(module_to(lib, model, 2, berth_device_cuda(1)));
  print_device("weight", model[0].device);
  show_error(module_to(lib, model, 2, berth_device_cuda(9)));
  print_device("bias", model[1].device);

  berth_device_map *same, *elsewhere, *nowhere;
  require(berth_device_map_create_table(NULL, 0, &same));
  require(berth_device_map_parse("cuda:1=cuda:0", &elsewhere));
  require(berth_device_map_parse("cuda:1=cuda:3", &nowhere));
  require(module_save(lib, model, 2, "c.safetensors"));
  require(module_load(lib, model, 2, "c.safetensors", same));
  print_device("loaded: weight", model[0].device);
  require(module_load(lib, model, 2, "c.safetensors", elsewhere));
  print_device("loaded: weight", model[0].device);
  show_error(module_load(lib, model, 2, "c.safetensors", nowhere));
  for (long size = 200; size > 0; size -= 150)
    if (truncate("c.safetensors", size) == 0)
      show_error(module_load(lib, model, 2, "c.safetensors", same));
  show_error(module_load(lib, model, 2, "missing.safetensors", same));
  berth_device_map_release(same);
  berth_device_map_release(elsewhere);
  berth_device_map_release(nowhere);
  tensor_free(&model[0]);
  tensor_free(&model[1]);
}

// Each batch moves on a second stream while the device computes with the one before.
static void prefetch(library* lib) {
  const berth_device device = berth_device_cuda(0);
  berth_stream compute, side;
  tensor host, sum = {0};
  require(library_stream(lib, device, &compute));
  require(berth_stream_acquire(lib->runtime, device, 0, &side));
  require(tensor_new(lib, 64, 64, berth_device_cpu(), true, &host));
  memset(tensor_numbers(lib, &host, true), 0, tensor_bytes(&host));
  for (int step = 0; step < 3; ++step) {
    tensor batch;
    berth_event arrived;
    berth_stream_guard* guard;
    require(berth_stream_guard_enter(side, &guard));
    require(module_copy(lib, &host, 1, device, true, &batch));
    berth_stream_guard_leave(guard);
    require(berth_event_acquire_recorded(lib->runtime, side, &arrived));
    require(berth_stream_wait(compute, arrived));
    require(berth_event_release(lib->runtime, arrived));
    require(berth_allocator_record_stream(batch.allocator, batch.data, compute));
    tensor_free(&sum);
    require(tensor_add(lib, &batch, &batch, &sum));
    tensor_free(&batch);
  }
  require(berth_stream_sync(compute));
  require(berth_stream_release(lib->runtime, side));
  tensor_free(&sum);
  tensor_free(&host);
}

// berth_stream_sync() is missing.
static void read_too_early(library* lib) {
  tensor a, there, back;
  require(tensor_new(lib, 1, 1, berth_device_cpu(), false, &a));
  *tensor_numbers(lib, &a, true) = 1;
  require(module_copy(lib, &a, 1, berth_device_cuda(0), false, &there));
  require(module_copy(lib, &there, 1, berth_device_cpu(), true, &back));
  tensor_numbers(lib, &back, false);
  tensor_free(&a);
  tensor_free(&there);
  tensor_free(&back);
}

int main(int argc, char** argv) {
  library lib;
  require(library_open(&lib, simulator_begin(argc > 1 ? argv[1] : "devices=2")));
  devices(&lib);
  arithmetic(&lib);
  modules(&lib);
  prefetch(&lib);
  printf("a mistake:\n");
  read_too_early(&lib);
  library_close(&lib);
  return simulator_end() == 1 ? 0 : 1;
}
