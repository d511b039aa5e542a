/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BERTH_TESTS_CAPI_SHARE_ENDS_H
#define BERTH_TESTS_CAPI_SHARE_ENDS_H

#include <stddef.h>
#include <sys/socket.h>

#include "check.h"
#include "parts.h"

/// A contiguous pool, and the two ends of a connection.
struct ends {
  berth_memory_pool* pool;
  berth_allocator* memory;
  berth_memory_connection* giver;
  berth_memory_connection* taker;
};

static inline struct ends open_ends(const struct machine* machine) {
  struct ends ends = {NULL, NULL, NULL, NULL};
  berth_memory_pool_options options = BERTH_MEMORY_POOL_OPTIONS_INIT;
  options.name = "shared";
  options.flags = BERTH_MEMORY_POOL_CONTIGUOUS;
  CHECK_OK(berth_memory_pool_create(machine->runtime, machine->device, &options, &ends.pool));
  CHECK_OK(berth_memory_pool_get_allocator(ends.pool, &ends.memory));
  int sockets[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
  CHECK_OK(berth_memory_connection_open(machine->runtime, sockets[0], &ends.giver));
  CHECK_OK(berth_memory_connection_open(machine->runtime, sockets[1], &ends.taker));
  return ends;
}

static inline void close_ends(struct ends* ends) {
  berth_memory_connection_close(ends->taker);
  berth_memory_connection_close(ends->giver);
  berth_memory_pool_close(ends->pool);
}

#endif
