/* SPDX-License-Identifier: Apache-2.0 */
// The C ABI of berth, for all code that can call C. To reduce compile time, include single headers
// instead. The C headers offer the functions of the C++ headers of the same names, whose comments
// apply here too; the C headers describe the differences. docs/c_api.md has an example.
//
// Failures  Every function that can fail returns a berth_status; berth_last_error_message() then
//           returns the reason. Outputs are the last parameters, and a failing call does not change
//           them.
// Null      No pointer may be null unless the function documents the meaning of null. Otherwise the
//           call returns BERTH_INVALID_ARGUMENT with the name of the parameter, and has no effect.
// Structs   A struct that starts with struct_size grows at its end from release to release.
//           Initialize it with its _INIT macro, which sets struct_size to the size that the program
//           was compiled with; berth reads and writes that many bytes. A larger size than berth
//           knows is BERTH_INVALID_ARGUMENT.
// Text      UTF-8. A `char**` output belongs to the caller, and is freed by berth_string_free(). A
//           `const char*` in a struct or from a `const char**` output belongs to the runtime and is
//           valid until the runtime is destroyed.
// Lifetime  Everything that is acquired, created, entered or allocated must be released before its
//           runtime is destroyed. Using it afterwards, or releasing it twice, is undefined behavior
//           unless the function detects it.
// Threads   Every function is safe from any thread, except from inside a CUDA host callback.
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include "berth/allocator.h"
#include "berth/backend_functions.h"
#include "berth/collectives.h"
#include "berth/completion_queue.h"
#include "berth/configuration.h"
#include "berth/copier.h"
#include "berth/device.h"
#include "berth/device_backend.h"
#include "berth/device_map.h"
#include "berth/device_pick.h"
#include "berth/error.h"
#include "berth/event.h"
#include "berth/file.h"
#include "berth/fork_join.h"
#include "berth/graph.h"
#include "berth/handle_pool.h"
#include "berth/memory_connection.h"
#include "berth/memory_pool.h"
#include "berth/memory_snapshot.h"
#include "berth/runtime.h"
#include "berth/same_device.h"
#include "berth/statistics.h"
#include "berth/stream.h"
#include "berth/transfer.h"
#include "berth/version.h"

#endif
