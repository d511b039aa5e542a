/* SPDX-License-Identifier: Apache-2.0 */
// Handles of a library that counts what is asked of it, in C.
#include "check.h"
#include "parts.h"

struct library {
  int created, destroyed, binds, workspaces;
  int failure;  ///< what bind() returns
  struct CUstream_st* bound;
};

static int create(void* user, void** handle) {
  struct library* const library = user;
  *handle = &library->created;
  ++library->created;
  return 0;
}

static int destroy(void* user, void* handle) {
  struct library* const library = user;
  CHECK(handle == &library->created);
  ++library->destroyed;
  return 0;
}

static int bind(void* user, void* handle, berth_stream stream) {
  struct library* const library = user;
  CHECK(handle == &library->created);
  ++library->binds;
  library->bound = stream.native;
  return library->failure;
}

static int set_workspace(void* user, void* handle, void* workspace, size_t bytes) {
  struct library* const library = user;
  CHECK(handle == &library->created && workspace != NULL && bytes == 4096);
  ++library->workspaces;
  return 0;
}

static berth_handle_pool* create_pool(const struct machine* machine, struct library* library,
                                      uint64_t flags) {
  berth_handle_pool_options options = BERTH_HANDLE_POOL_OPTIONS_INIT;
  options.name = "library";
  options.create = &create;
  options.destroy = &destroy;
  options.bind = &bind;
  options.set_workspace = &set_workspace;
  options.user = library;
  options.workspace_bytes = 4096;
  options.flags = flags;
  options.handles_max = 1;
  berth_handle_pool* pool = NULL;
  CHECK_OK(berth_handle_pool_create(machine->runtime, &options, &pool));
  return pool;
}

static void handles_are_leased_and_reused(const struct machine* machine) {
  struct library library = {0};
  berth_handle_pool* const pool =
      create_pool(machine, &library, BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY);
  berth_handle_lease* lease = NULL;
  void* handle = NULL;
  for (int round = 0; round < 2; ++round) {
    CHECK_OK(berth_handle_pool_acquire(pool, machine->stream, &lease, &handle));
    CHECK(handle == &library.created && library.bound == machine->stream.native);
    berth_handle_lease* other = NULL;
    CHECK_FAILS(BERTH_EXHAUSTED, "library",
                berth_handle_pool_acquire(pool, machine->stream, &other, &handle));
    CHECK(other == NULL);
    berth_handle_lease_release(lease);
  }
  CHECK(library.created == 1 && library.binds == 1 && library.workspaces == 1);
  berth_handle_counters counters = BERTH_HANDLE_COUNTERS_INIT;
  CHECK_OK(berth_handle_pool_get_counters(pool, &counters));
  CHECK(counters.created == 1 && counters.binds == 1 && counters.live == 1 && counters.idle == 1);
  CHECK_OK(berth_handle_pool_retire_stream(pool, machine->stream));
  CHECK_OK(berth_handle_pool_acquire(pool, machine->stream, &lease, &handle));
  CHECK(library.binds == 2);
  berth_handle_lease_release(lease);
  size_t destroyed = 0;
  CHECK_OK(berth_handle_pool_trim(pool, &destroyed));
  CHECK(destroyed == 1 && library.destroyed == 1);
  berth_handle_pool_destroy(pool);
  berth_handle_pool_destroy(NULL);
  berth_handle_lease_release(NULL);
}

static void failure_of_the_library_is_reported_with_its_code(const struct machine* machine) {
  struct library library = {.failure = 13};
  berth_handle_pool* const pool = create_pool(machine, &library, 0);
  berth_handle_lease* lease = NULL;
  void* handle = NULL;
  CHECK_FAILS(BERTH_CALLBACK_FAILED, "library: bind() returned 13",
              berth_handle_pool_acquire(pool, machine->stream, &lease, &handle));
  CHECK(lease == NULL && handle == NULL && library.destroyed == 1);
  library.failure = 0;
  CHECK_OK(berth_handle_pool_acquire(pool, machine->stream, &lease, &handle));
  berth_handle_lease_release(lease);
  berth_handle_pool_destroy(pool);
  CHECK(library.destroyed == 2);
}

static void options_are_checked(const struct machine* machine) {
  berth_handle_pool_options options = BERTH_HANDLE_POOL_OPTIONS_INIT;
  berth_handle_pool* pool = NULL;
  CHECK_REFUSED("options.name", berth_handle_pool_create(machine->runtime, &options, &pool));
  options.name = "library";
  CHECK_REFUSED("options.create", berth_handle_pool_create(machine->runtime, &options, &pool));
  options.create = &create;
  CHECK_REFUSED("options.bind", berth_handle_pool_create(machine->runtime, &options, &pool));
  options.bind = &bind;
  options.flags = 4;
  CHECK_REFUSED("options.flags", berth_handle_pool_create(machine->runtime, &options, &pool));
  options.flags = 0;
  options.workspace_bytes = 1;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "workspace",
              berth_handle_pool_create(machine->runtime, &options, &pool));
  CHECK(pool == NULL);
}

void test_handle_pools(void) {
  struct machine machine = open_machine(NULL);
  handles_are_leased_and_reused(&machine);
  failure_of_the_library_is_reported_with_its_code(&machine);
  options_are_checked(&machine);
  close_machine(&machine);
}
