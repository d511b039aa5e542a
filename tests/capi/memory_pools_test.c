/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

enum { kBytes = 100000 };

/// A pool and its allocator.
struct pool {
  berth_memory_pool* pool;
  berth_allocator* memory;
};

static struct pool create_pool(const struct machine* machine, const char* name, uint64_t flags) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  options.name = name;
  options.flags = flags;
  struct pool pool = {NULL, NULL};
  CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &pool.pool));
  CHECK_OK(berth_memory_pool_get_allocator(pool.pool, &pool.memory));
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
  const struct pool pool = create_pool(machine, "weights", 0);
  const struct pool other = create_pool(machine, "other", BERTH_MEMORY_POOL_FOR_GRAPHS);
  void* data = allocate(machine, pool.memory);
  CHECK(owns(pool.memory, data) && owns(machine->memory, data) && !owns(other.memory, data));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "weights", berth_allocator_deallocate(pool.memory, &data));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "other", berth_allocator_deallocate(other.memory, data));
  CHECK_OK(berth_allocator_deallocate(pool.memory, data));
  CHECK_OK(berth_allocator_validate(pool.memory));
  berth_memory_pool_close(pool.pool);
  berth_memory_pool_close(other.pool);
}

static void pool_has_limits(const struct machine* machine) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  options.name = "small";
  options.bytes_reserved_max = 1;
  struct pool pool = {NULL, NULL};
  CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &pool.pool));
  CHECK_OK(berth_memory_pool_get_allocator(pool.pool, &pool.memory));
  void* data = NULL;
  CHECK_FAILS(BERTH_OUT_OF_MEMORY, "small",
              berth_allocator_allocate(pool.memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_allocator_set_limits(pool.memory, BERTH_NO_LIMIT, BERTH_NO_LIMIT));
  CHECK_OK(berth_allocator_deallocate(pool.memory, allocate(machine, pool.memory)));
  berth_memory_pool_close(pool.pool);
}

static void live_block_outlives_its_pool(const struct machine* machine) {
  const struct pool pool = create_pool(machine, "short-lived", 0);
  void* const data = allocate(machine, pool.memory);
  berth_memory_pool_close(pool.pool);
  CHECK(owns(machine->memory, data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void pool_sleeps_and_wakes(const struct machine* machine) {
  const struct pool pool = create_pool(machine, "sleeper", 0);
  void* const data = allocate(machine, pool.memory);
  const char sent[] = "kept";
  char received[sizeof sent] = "";
  CHECK_OK(berth_copy_sync(machine->runtime, data, sent, sizeof sent, machine->stream));
  size_t released = 0;
  CHECK_OK(berth_memory_pool_sleep(pool.pool, true, &released));
  CHECK(released >= kBytes);
  void* refused = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "asleep",
              berth_allocator_allocate(pool.memory, kBytes, machine->stream, &refused));
  CHECK_OK(berth_memory_pool_wake(pool.pool));
  CHECK_OK(berth_copy_sync(machine->runtime, received, data, sizeof sent, machine->stream));
  CHECK(strcmp(received, sent) == 0);
  CHECK_OK(berth_allocator_deallocate(pool.memory, data));
  berth_memory_pool_close(pool.pool);
}

struct restored {
  int count[4];
  void* freed;
  void* allocated;
};

static void note_restored(void* user, void* data, uint32_t what) {
  struct restored* const restored = user;
  ++restored->count[what];
  if (what == BERTH_RESTORED_FREED) restored->freed = data;
  if (what == BERTH_RESTORED_ALLOCATED) restored->allocated = data;
}

static void blocks_of_a_checkpoint_are_live_again(const struct machine* machine) {
  const struct pool plain = create_pool(machine, "plain", 0);
  const struct pool pool = create_pool(machine, "graphs", BERTH_MEMORY_POOL_FOR_GRAPHS);
  void* const kept = allocate(machine, pool.memory);
  void* const dropped = allocate(machine, pool.memory);
  berth_pool_checkpoint* checkpoint = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "for_graphs",
              berth_memory_pool_checkpoint(plain.pool, &checkpoint));
  CHECK_OK(berth_memory_pool_checkpoint(pool.pool, &checkpoint));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "another pool",
              berth_memory_pool_restore(plain.pool, checkpoint, NULL, NULL));
  CHECK_OK(berth_allocator_deallocate(pool.memory, dropped));
  void* later = NULL;
  CHECK_OK(berth_allocator_allocate(pool.memory, 3 * kBytes, machine->stream, &later));
  struct restored restored = {{0}, NULL, NULL};
  CHECK_OK(berth_memory_pool_restore(pool.pool, checkpoint, note_restored, &restored));
  CHECK(restored.freed == later && restored.allocated == dropped);
  CHECK(restored.count[BERTH_RESTORED_FREED] == 1);
  CHECK(restored.count[BERTH_RESTORED_ALLOCATED] == 1);
  CHECK(restored.count[BERTH_RESTORED_KEPT] == 1);
  CHECK_OK(berth_memory_pool_restore(pool.pool, checkpoint, NULL, NULL));
  berth_pool_checkpoint_destroy(checkpoint);
  CHECK_OK(berth_allocator_deallocate(pool.memory, kept));
  CHECK_OK(berth_allocator_deallocate(pool.memory, dropped));
  berth_memory_pool_close(pool.pool);
  berth_memory_pool_close(plain.pool);
}

static void scope_sends_requests_to_its_pool(const struct machine* machine) {
  const struct pool pool = create_pool(machine, "scoped", 0);
  berth_memory_pool_scope* scopes[2] = {NULL, NULL};
  CHECK_OK(berth_memory_pool_scope_enter(pool.pool, &scopes[0]));
  CHECK_OK(berth_memory_pool_scope_enter_stream(pool.pool, machine->stream, &scopes[1]));
  for (int scope = 0; scope < 2; ++scope) {
    void* const data = allocate(machine, machine->memory);
    CHECK(owns(pool.memory, data));
    CHECK_OK(berth_allocator_deallocate(machine->memory, data));
    berth_memory_pool_scope_leave(scopes[scope]);
  }
  void* const data = allocate(machine, machine->memory);
  CHECK(!owns(pool.memory, data));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  berth_memory_pool_scope_leave(NULL);
  berth_memory_pool_close(pool.pool);
}

static void pools_sleep_and_wake_by_name(const struct machine* machine) {
  const struct pool first = create_pool(machine, "layer", 0);
  const struct pool second = create_pool(machine, "layer", 0);
  void* const data[] = {allocate(machine, first.memory), allocate(machine, second.memory)};
  bool is_asleep = true;
  CHECK_OK(berth_memory_pool_is_asleep(first.pool, &is_asleep));
  CHECK(!is_asleep);
  size_t released = 0;
  CHECK_OK(berth_memory_pools_sleep(machine->runtime, machine->device, "layer", false, &released));
  CHECK(released >= 2 * (size_t)kBytes);
  CHECK_OK(berth_memory_pool_is_asleep(second.pool, &is_asleep));
  CHECK(is_asleep);
  CHECK_OK(berth_memory_pools_wake(machine->runtime, machine->device, "layer"));
  CHECK_OK(berth_memory_pool_is_asleep(first.pool, &is_asleep));
  CHECK(!is_asleep);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "nobody",
              berth_memory_pools_wake(machine->runtime, machine->device, "nobody"));
  const char* name = NULL;
  CHECK_OK(berth_memory_pool_get_name(first.pool, &name));
  CHECK(strcmp(name, "cuda:0/layer") == 0);
  CHECK_OK(berth_allocator_deallocate(first.memory, data[0]));
  CHECK_OK(berth_allocator_deallocate(second.memory, data[1]));
  berth_memory_pool_close(first.pool);
  berth_memory_pool_close(second.pool);
}

static void options_of_a_pool_are_checked(const struct machine* machine) {
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  berth_memory_pool* pool = NULL;
  options.name = "";
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "64",
              berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  options.name = "name";
  options.flags = UINT64_C(1) << 63;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "options.flags",
              berth_memory_pool_create(machine->runtime, machine->device, &options, &pool));
  CHECK(pool == NULL);
  berth_memory_pool_close(NULL);
}

static void memory_of_graphs_is_known(const struct machine* machine) {
  const struct pool pool = create_pool(machine, "graph", BERTH_MEMORY_POOL_FOR_GRAPHS);
  void* const data = allocate(machine, pool.memory);
  bool is_for_graphs = false;
  CHECK_OK(berth_allocator_is_for_graphs(machine->memory, data, &is_for_graphs));
  CHECK(is_for_graphs);
  CHECK_OK(berth_allocator_is_for_graphs(machine->memory, NULL, &is_for_graphs));
  CHECK(!is_for_graphs);
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "berth_allocator_get_device",
              berth_allocator_is_for_graphs(machine->pinned, data, &is_for_graphs));
  CHECK_OK(berth_allocator_deallocate(pool.memory, data));
  berth_memory_pool_close(pool.pool);
}

void test_memory_pools(void) {
  struct machine machine = open_machine(NULL);
  pool_is_an_allocator_of_its_own(&machine);
  pool_has_limits(&machine);
  live_block_outlives_its_pool(&machine);
  pool_sleeps_and_wakes(&machine);
  blocks_of_a_checkpoint_are_live_again(&machine);
  scope_sends_requests_to_its_pool(&machine);
  pools_sleep_and_wake_by_name(&machine);
  options_of_a_pool_are_checked(&machine);
  memory_of_graphs_is_known(&machine);
  close_machine(&machine);
}
