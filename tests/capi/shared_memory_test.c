/* SPDX-License-Identifier: Apache-2.0 */
// Blocks of a contiguous pool, and a connection whose two ends are in this process.
#include <stdint.h>

#include "check.h"
#include "parts.h"
#include "share_ends.h"

enum { kBytes = 100000, kBlocks = 5 };

static uint64_t properties_of(berth_allocator* memory, const void* data) {
  berth_memory_properties properties = BERTH_MEMORY_PROPERTIES_INIT;
  CHECK_OK(berth_allocator_get_properties(memory, data, &properties));
  CHECK((properties.segment != NULL) == (properties.segment_bytes > 0));
  return properties.flags;
}

static void properties_are_those_of_the_pool(const struct machine* machine) {
  struct ends ends = open_ends(machine);
  void* shared = NULL;
  void* other = NULL;
  CHECK_OK(berth_allocator_allocate(ends.memory, kBytes, machine->stream, &shared));
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &other));
  const uint64_t of_shared = properties_of(ends.memory, shared);
  CHECK((of_shared & BERTH_MEMORY_IS_LIVE) != 0 && (of_shared & BERTH_MEMORY_IS_CONTIGUOUS) != 0);
  CHECK((of_shared & BERTH_MEMORY_IS_EXPORTABLE) != 0);
  CHECK((of_shared & BERTH_MEMORY_IS_RDMA_CAPABLE) == 0);
  CHECK(properties_of(machine->memory, (const char*)shared + 1) == of_shared);
  CHECK(properties_of(machine->memory, other) == BERTH_MEMORY_IS_LIVE);
  CHECK(properties_of(ends.memory, other) == 0 && properties_of(ends.memory, NULL) == 0);
  berth_memory_properties properties = BERTH_MEMORY_PROPERTIES_INIT;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "allocator",
              berth_allocator_get_properties(machine->host, shared, &properties));
  CHECK_OK(berth_allocator_deallocate(ends.memory, shared));
  CHECK_OK(berth_allocator_deallocate(machine->memory, other));
  close_ends(&ends);
}

static void blocks_are_shared_and_returned(const struct machine* machine) {
  struct ends ends = open_ends(machine);
  void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i)
    CHECK_OK(
        berth_allocator_allocate(ends.memory, kBytes + (size_t)i, machine->stream, &blocks[i]));
  size_t count = 77;
  CHECK_OK(berth_memory_connection_share(ends.giver, ends.pool, blocks, kBlocks, 1000, &count));
  CHECK(count == kBlocks);
  CHECK_OK(berth_memory_connection_share(ends.giver, ends.pool, NULL, 0, 0, &count));
  CHECK(count == 0);
  for (int i = 0; i < kBlocks; ++i) {
    berth_shared_block* block = NULL;
    void* data = NULL;
    size_t bytes = 0;
    berth_device device = {0, 0};
    CHECK_OK(berth_memory_connection_receive(ends.taker, 1000, &block));
    CHECK(block != NULL);
    CHECK_OK(berth_shared_block_get(block, &data, &bytes, &device));
    CHECK(data != NULL && bytes == kBytes + (size_t)i && device.ordinal == machine->device.ordinal);
    berth_shared_block_return(block);
  }
  berth_shared_block* none = NULL;
  CHECK_OK(berth_memory_connection_receive(ends.taker, 0, &none));
  CHECK(none == NULL);
  CHECK_OK(berth_memory_connection_get_blocks_shared(ends.giver, &count));
  CHECK(count == kBlocks);
  CHECK_OK(berth_memory_connection_reclaim(ends.giver, &count));
  CHECK(count == kBlocks);
  bool is_open = false;
  CHECK_OK(berth_memory_connection_is_open(ends.giver, &is_open));
  CHECK(is_open);
  berth_memory_connection_end(ends.taker);
  berth_memory_connection_end(ends.taker);
  CHECK_OK(berth_memory_connection_is_open(ends.taker, &is_open));
  CHECK_OK(berth_memory_connection_receive(ends.taker, UINT64_MAX, &none));
  CHECK(none == NULL && !is_open);
  berth_memory_connection_close(ends.taker);
  ends.taker = NULL;
  CHECK_OK(berth_memory_connection_receive(ends.giver, UINT64_MAX, &none));
  CHECK_OK(berth_memory_connection_is_open(ends.giver, &is_open));
  CHECK(none == NULL && !is_open);
  close_ends(&ends);
}

static void refused_blocks_stay_with_the_caller(const struct machine* machine) {
  struct ends ends = open_ends(machine);
  void* blocks[2] = {NULL, NULL};
  size_t count = 0;
  CHECK_OK(berth_allocator_allocate(ends.memory, kBytes, machine->stream, &blocks[0]));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not the start of a live block",
              berth_memory_connection_share(ends.giver, ends.pool, blocks, 2, 0, &count));
  CHECK(count == 0);
  CHECK_OK(berth_allocator_deallocate(ends.memory, blocks[0]));
  berth_memory_connection* connection = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "cannot carry shared memory",
              berth_memory_connection_open(machine->runtime, -1, &connection));
  CHECK(connection == NULL);
  berth_memory_connection_end(NULL);
  berth_memory_connection_close(NULL);
  berth_shared_block_return(NULL);
  close_ends(&ends);
}

void test_shared_memory(void) {
  struct machine machine = open_machine(NULL);
  properties_are_those_of_the_pool(&machine);
  blocks_are_shared_and_returned(&machine);
  refused_blocks_stay_with_the_caller(&machine);
  close_machine(&machine);
}
