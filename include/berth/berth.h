/* SPDX-License-Identifier: Apache-2.0 */
// The stable C ABI of berth, for everything that can call C. Include a single header instead where
// compile time matters. The C headers offer what the C++ headers of the same names do, whose
// comments hold here too: these say what is different in C. docs/c_api.md has an example.
//
// Failures   Whatever can fail returns a berth_status; berth_last_error_message() then says what is
//            wrong. Outputs are the last parameters, and untouched by a call that fails.
// Null       No pointer may be null unless its function says what null means. Otherwise it is
//            BERTH_INVALID_ARGUMENT with the name of the parameter, and nothing is done.
// Structs    One that starts with struct_size grows at its end from release to release. Start it
//            with its _INIT macro, which sets struct_size to what the program was compiled with:
//            berth reads and writes that much. More than berth knows is BERTH_INVALID_ARGUMENT.
// Text       UTF-8. What a `char**` output gives belongs to the caller, who frees it with
//            berth_string_free(). A `const char*` in a struct or from a `const char**` output
//            belongs to the runtime and is valid until that is destroyed.
// Lifetime   What is acquired, created, entered or allocated is given back before its runtime is
//            destroyed. Using it afterwards, or giving it back twice, is undefined unless the
//            function says that it is detected.
// Threads    Every function is safe from any thread, except from inside a CUDA host callback.
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include "berth/allocator.h"
#include "berth/collectives.h"
#include "berth/completion_queue.h"
#include "berth/copier.h"
#include "berth/device.h"
#include "berth/device_map.h"
#include "berth/device_pick.h"
#include "berth/error.h"
#include "berth/event.h"
#include "berth/file.h"
#include "berth/fork_join.h"
#include "berth/memory_pool.h"
#include "berth/runtime.h"
#include "berth/same_device.h"
#include "berth/statistics.h"
#include "berth/stream.h"
#include "berth/transfer.h"
#include "berth/version.h"

#endif
