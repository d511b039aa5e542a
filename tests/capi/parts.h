/* SPDX-License-Identifier: Apache-2.0 */
// The parts of capi_test, each in the file of its name, and what they work on.
#ifndef BERTH_TESTS_CAPI_PARTS_H
#define BERTH_TESTS_CAPI_PARTS_H

#include "berth/berth.h"

/// A runtime on the driver that the environment names, with the parts of its first device.
struct machine {
  berth_runtime* runtime;
  berth_device device;
  berth_stream stream;  ///< a pooled one
  berth_allocator* memory;
  berth_allocator* pinned;
  berth_allocator* host;
};

/// Null `options`: the defaults.
struct machine open_machine(const berth_runtime_options* options);
void close_machine(struct machine* machine);

/// Whether work that was submitted stays pending until it is waited for: the simulated driver runs
/// with progress=manual here, and no hardware promises as much.
bool work_stays_pending(const struct machine* machine);

void test_backend_functions(void);
void test_collectives(void);
void test_configuration(void);
void test_copies(void);
void test_device_backend(void);
void test_device_map(void);
void test_device_pick(void);
void test_devices(void);
void test_errors(void);
void test_files(void);
void test_graphs(void);
void test_handle_pools(void);
void test_memory(void);
void test_memory_pools(void);
void test_null_arguments(void);
void test_null_backend_arguments(void);
void test_null_device_arguments(void);
void test_null_memory_arguments(void);
void test_null_sharing_arguments(void);
void test_order(void);
void test_runtime(void);
void test_same_device(void);
void test_shared_memory(void);
void test_snapshots(void);
void test_statistics(void);
void test_streams_and_events(void);
void test_structs(void);

#endif
