/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "simulator.h"

static void require(berth_status status) {
  if (status == BERTH_OK) return;
  printf("error: %s\n", tensor_error());
  exit(1);
}

// Prints the error of a call that fails.
static void show_error(berth_status status) {
  if (status != BERTH_OK) printf("error: %s\n", tensor_error());
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
  float result[4] = {0};
  tensor a, there, sum, product, back;
  require(tensor_new(lib, 2, 2, berth_device_cpu(), 0, &a));
  require(tensor_write(lib, &a, values));
  require(tensor_to(lib, &a, berth_device_cuda(1), 0, &there));
  require(tensor_add(lib, &there, &there, &sum));
  require(tensor_multiply(lib, &sum, &there, &product));
  require(tensor_to(lib, &product, berth_device_cpu(), 0, &back));
  require(tensor_read(lib, &back, result));
  printf("%g %g %g %g\n", result[0], result[1], result[2], result[3]);
  show_error(tensor_add(lib, &a, &there, &sum));
  show_error(tensor_add(lib, &there, &a, &sum));
  tensor* const all[] = {&a, &there, &sum, &product, &back};
  for (size_t index = 0; index < sizeof all / sizeof *all; ++index) tensor_free(all[index]);
}

static void module(library* lib) {
  tensor weight, bias;
  require(tensor_new(lib, 8, 4, berth_device_cpu(), 0, &weight));
  require(tensor_new(lib, 1, 4, berth_device_cpu(), 0, &bias));
  tensor* const tensors[] = {&weight, &bias};
  require(module_to(lib, tensors, 2, berth_device_cuda(0)));
  print_device("weight", weight.device);
  show_error(module_to(lib, tensors, 2, berth_device_cuda(9)));
  print_device("bias", bias.device);
  tensor_free(&weight);
  tensor_free(&bias);
}

// berth_stream_sync() is missing.
static void read_too_early(library* lib) {
  const float value = 1;
  float read = 0;
  tensor a, there, back;
  require(tensor_new(lib, 1, 1, berth_device_cpu(), 0, &a));
  require(tensor_write(lib, &a, &value));
  require(tensor_to(lib, &a, berth_device_cuda(0), 0, &there));
  require(tensor_to(lib, &there, berth_device_cpu(), TENSOR_NON_BLOCKING, &back));
  require(tensor_read(lib, &back, &read));
  tensor_free(&a);
  tensor_free(&there);
  tensor_free(&back);
}

int main(int argc, char** argv) {
  library lib;
  require(library_open(&lib, simulator_begin(argc > 1 ? argv[1] : "devices=2")));
  devices(&lib);
  arithmetic(&lib);
  module(&lib);
  printf("a mistake:\n");
  read_too_early(&lib);
  library_close(&lib);
  return simulator_end() == 1 ? 0 : 1;
}
