/* SPDX-License-Identifier: Apache-2.0 */
// The simulated machine of a C program.
#ifndef TENSOR_SIMULATOR_H
#define TENSOR_SIMULATOR_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// `machine`: as in BERTH_SIM. The library that is opened next runs on it.
kernel_runner simulator_begin(const char* machine);
// Prints what the simulator has found, and returns how much that is.
int simulator_end(void);

#ifdef __cplusplus
}
#endif

#endif
