/* SPDX-License-Identifier: Apache-2.0 */
// All statistics of a runtime at one moment, as text.
#ifndef BERTH_STATISTICS_H
#define BERTH_STATISTICS_H

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// For people: driver, devices, and for each allocator its counters and fragmentation, on 80
/// columns.
BERTH_API berth_status berth_statistics_to_text(berth_runtime* runtime, char** text);
/// For programs: one JSON object. A release may add fields to it.
BERTH_API berth_status berth_statistics_to_json(berth_runtime* runtime, char** json);

#ifdef __cplusplus
}
#endif

#endif
