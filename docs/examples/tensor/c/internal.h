/* SPDX-License-Identifier: Apache-2.0 */
// What the files of the library share.
#ifndef TENSOR_INTERNAL_H
#define TENSOR_INTERNAL_H

#include "tensor.h"

#define TRY(call)                            \
  do {                                       \
    const berth_status status_ = (call);     \
    if (status_ != BERTH_OK) return status_; \
  } while (0)

// BERTH_INVALID_ARGUMENT, with a reason of the library's own.
berth_status refuse(const char* why);
int is_cpu(berth_device device);
int is_same(berth_device a, berth_device b);
// The streams between which a copy is made. On the host's side, that of the other side.
berth_status streams_between(library* lib, berth_device target, berth_device source,
                             berth_stream streams[2]);

#endif
