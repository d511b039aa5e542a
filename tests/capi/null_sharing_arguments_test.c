/* SPDX-License-Identifier: Apache-2.0 */
// Null for each parameter, as in null_arguments_test.c: shared memory.
#include "check.h"
#include "parts.h"
#include "share_ends.h"

enum { kBytes = 100000 };

static void sharing_functions(const struct machine* machine) {
  struct ends ends = open_ends(machine);
  berth_memory_connection* connection = NULL;
  berth_shared_block* block = NULL;
  void* data = NULL;
  size_t count = 0;
  bool is_open = false;
  berth_device device = {0, 0};
  berth_memory_properties properties = BERTH_MEMORY_PROPERTIES_INIT;
  CHECK_REFUSED("runtime", berth_memory_connection_open(NULL, -1, &connection));
  CHECK_REFUSED("connection", berth_memory_connection_open(machine->runtime, -1, NULL));
  CHECK_REFUSED("connection", berth_memory_connection_share(NULL, ends.pool, &data, 1, 0, &count));
  CHECK_REFUSED("pool", berth_memory_connection_share(ends.giver, NULL, &data, 1, 0, &count));
  CHECK_REFUSED("blocks", berth_memory_connection_share(ends.giver, ends.pool, NULL, 1, 0, &count));
  CHECK_REFUSED("shared", berth_memory_connection_share(ends.giver, ends.pool, &data, 1, 0, NULL));
  CHECK_REFUSED("connection", berth_memory_connection_reclaim(NULL, &count));
  CHECK_REFUSED("freed", berth_memory_connection_reclaim(ends.giver, NULL));
  CHECK_REFUSED("connection", berth_memory_connection_get_blocks_shared(NULL, &count));
  CHECK_REFUSED("blocks", berth_memory_connection_get_blocks_shared(ends.giver, NULL));
  CHECK_REFUSED("connection", berth_memory_connection_is_open(NULL, &is_open));
  CHECK_REFUSED("is_open", berth_memory_connection_is_open(ends.giver, NULL));
  CHECK_REFUSED("connection", berth_memory_connection_receive(NULL, 0, &block));
  CHECK_REFUSED("block", berth_memory_connection_receive(ends.taker, 0, NULL));
  CHECK_REFUSED("block", berth_shared_block_get(NULL, &data, &count, &device));
  CHECK_REFUSED("allocator", berth_allocator_get_properties(NULL, data, &properties));
  CHECK_REFUSED("properties", berth_allocator_get_properties(ends.memory, data, NULL));
  CHECK_OK(berth_allocator_allocate(ends.memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_memory_connection_share(ends.giver, ends.pool, &data, 1, 0, &count));
  CHECK_OK(berth_memory_connection_receive(ends.taker, 0, &block));
  CHECK_REFUSED("data", berth_shared_block_get(block, NULL, &count, &device));
  CHECK_REFUSED("bytes", berth_shared_block_get(block, &data, NULL, &device));
  CHECK_REFUSED("device", berth_shared_block_get(block, &data, &count, NULL));
  berth_shared_block_return(block);
  CHECK_OK(berth_memory_connection_reclaim(ends.giver, &count));
  CHECK(count == 1);
  close_ends(&ends);
}

void test_null_sharing_arguments(void) {
  struct machine machine = open_machine(NULL);
  sharing_functions(&machine);
  close_machine(&machine);
}
