/* SPDX-License-Identifier: Apache-2.0 */
// The options of a runtime as text. docs/configuration.md lists every key.
#ifndef BERTH_CONFIGURATION_H
#define BERTH_CONFIGURATION_H

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The options in effect, including those of BERTH_CONF: "key=value, key=value", every key, as
/// berth_runtime_options.configuration accepts it.
BERTH_API berth_status berth_runtime_get_configuration(berth_runtime* runtime,
                                                       char** configuration);

/// Translates `text`, the value of PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF, for
/// berth_runtime_options.configuration. `remarks` has one line for each key that berth does not
/// need, or reads differently from PyTorch, with the reason.
/// Errors  BERTH_INVALID_ARGUMENT that names every invalid entry and what is accepted.
BERTH_API berth_status berth_configuration_from_pytorch(const char* text, char** configuration,
                                                        char** remarks);

#ifdef __cplusplus
}
#endif

#endif
