/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

void test_same_device(void) {
  berth_device_argument arguments[3] = {
      {"input", berth_device_cuda(1)}, {NULL, berth_device_cuda(1)}, {"", berth_device_cuda(1)}};
  CHECK_OK(berth_require_same_device("matmul", arguments, 3, NULL));
  CHECK_OK(berth_require_same_device("matmul", NULL, 0, NULL));

  arguments[1].device = berth_device_cpu();
  CHECK_OK(berth_require_same_device("matmul", arguments, 1, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT,
              "matmul: expected all arguments on cuda:1, where \"input\" and 1 more are, but "
              "argument 2 is on cpu; move it with a copy to cuda:1",
              berth_require_same_device("matmul", arguments, 3, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "is on cpu; call to(cuda:1)",
              berth_require_same_device("matmul", arguments, 3, "call to({device})"));

  arguments[1].device.ordinal = 1;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"arguments\"",
              berth_require_same_device("matmul", arguments, 3, NULL));
  arguments[1].device.type = -1;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"arguments\"",
              berth_require_same_device("matmul", arguments + 1, 1, NULL));
}
