/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

enum { kBytes = 100000 };

static berth_allocator* create_pool(const struct machine* machine, const char* name,
                                    uint64_t flags) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  options.name = name;
  options.flags = flags;
  berth_allocator* pool = NULL;
  CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  return pool;
}

static bool owns(berth_allocator* allocator, const void* data) {
  bool found = false;
  CHECK_OK(berth_allocator_owns(allocator, data, &found));
  return found;
}

static void* allocate(const struct machine* machine, berth_allocator* allocator) {
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(allocator, kBytes, machine->stream, &data));
  return data;
}

static void pool_is_an_allocator_of_its_own(const struct machine* machine) {
  berth_allocator* const pool = create_pool(machine, "weights", 0);
  berth_allocator* const other = create_pool(machine, "other", BERTH_MEMORY_POOL_FOR_GRAPHS);
  void* data = allocate(machine, pool);
  CHECK(owns(pool, data) && owns(machine->memory, data) && !owns(other, data));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "weights", berth_allocator_deallocate(pool, &data));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "other", berth_allocator_deallocate(other, data));
  CHECK_OK(berth_allocator_deallocate(pool, data));
  CHECK_OK(berth_allocator_validate(pool));
  CHECK_OK(berth_memory_pool_close(pool));
  CHECK_OK(berth_memory_pool_close(other));
}

static void pool_has_limits(const struct machine* machine) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  options.name = "small";
  options.reserved_bytes_max = 1;
  berth_allocator* pool = NULL;
  CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  void* data = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "small",
              berth_allocator_allocate(pool, kBytes, machine->stream, &data));
  CHECK_OK(berth_allocator_set_limits(pool, BERTH_NO_LIMIT, BERTH_NO_LIMIT));
  CHECK_OK(berth_allocator_deallocate(pool, allocate(machine, pool)));
  CHECK_OK(berth_memory_pool_close(pool));
}

static void live_block_outlives_its_pool(const struct machine* machine) {
  berth_allocator* const pool = create_pool(machine, "short-lived", 0);
  void* const data = allocate(machine, pool);
  CHECK_OK(berth_memory_pool_close(pool));
  CHECK(owns(machine->memory, data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void pool_sleeps_and_wakes(const struct machine* machine) {
  berth_allocator* const pool = create_pool(machine, "sleeper", 0);
  void* const data = allocate(machine, pool);
  const char sent[] = "kept";
  char received[sizeof sent] = "";
  CHECK_OK(berth_copy_sync(machine->runtime, data, sent, sizeof sent, machine->stream));
  size_t released = 0;
  CHECK_OK(berth_memory_pool_sleep(pool, true, &released));
  CHECK(released >= kBytes);
  void* refused = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "asleep",
              berth_allocator_allocate(pool, kBytes, machine->stream, &refused));
  CHECK_OK(berth_memory_pool_wake(pool));
  CHECK_OK(berth_copy_sync(machine->runtime, received, data, sizeof sent, machine->stream));
  CHECK(strcmp(received, sent) == 0);
  CHECK_OK(berth_allocator_deallocate(pool, data));
  CHECK_OK(berth_memory_pool_close(pool));
}

static void scope_sends_requests_to_its_pool(const struct machine* machine) {
  berth_allocator* const pool = create_pool(machine, "scoped", 0);
  berth_memory_pool_scope* scopes[2] = {NULL, NULL};
  CHECK_OK(berth_memory_pool_scope_enter(pool, &scopes[0]));
  CHECK_OK(berth_memory_pool_scope_enter_stream(pool, machine->stream, &scopes[1]));
  for (int scope = 0; scope < 2; ++scope) {
    void* const data = allocate(machine, machine->memory);
    CHECK(owns(pool, data));
    CHECK_OK(berth_allocator_deallocate(machine->memory, data));
    berth_memory_pool_scope_leave(scopes[scope]);
  }
  void* const data = allocate(machine, machine->memory);
  CHECK(!owns(pool, data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  berth_memory_pool_scope_leave(NULL);
  CHECK_OK(berth_memory_pool_close(pool));
}

static void what_is_no_pool_is_refused(const struct machine* machine) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  berth_allocator* pool = NULL;
  options.name = "";
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "64",
              berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  options.name = "name";
  options.flags = 2;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "options.flags",
              berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  CHECK(pool == NULL);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "berth_memory_pool_create",
              berth_memory_pool_close(machine->memory));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "berth_memory_pool_create",
              berth_memory_pool_wake(machine->pinned));
}

void test_memory_pools(void) {
  struct machine machine = open_machine(NULL);
  pool_is_an_allocator_of_its_own(&machine);
  pool_has_limits(&machine);
  live_block_outlives_its_pool(&machine);
  pool_sleeps_and_wakes(&machine);
  scope_sends_requests_to_its_pool(&machine);
  what_is_no_pool_is_refused(&machine);
  close_machine(&machine);
}
