/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "parts.h"

enum { kShards = 2, kBytes = 3 << 20, kWhole = kShards * kBytes };

/// Memory on each device, or twice on the only one.
struct parts {
  berth_allocator* memory[kShards];
  berth_shard shards[kShards];
};

static struct parts open_parts(const struct machine* machine) {
  struct parts parts;
  int devices = 0;
  CHECK_OK(berth_device_count(machine->runtime, &devices));
  for (int index = 0; index < kShards; ++index) {
    const berth_device device = berth_device_cuda(index % devices);
    berth_shard* const shard = &parts.shards[index];
    CHECK_OK(berth_stream_acquire(machine->runtime, device, 0, &shard->stream));
    CHECK_OK(berth_allocator_get_device(machine->runtime, device, &parts.memory[index]));
    CHECK_OK(berth_allocator_allocate(parts.memory[index], kBytes, shard->stream, &shard->data));
    shard->bytes = kBytes;
  }
  return parts;
}

static void close_parts(const struct machine* machine, struct parts* parts) {
  for (int index = 0; index < kShards; ++index) {
    CHECK_OK(berth_allocator_deallocate(parts->memory[index], parts->shards[index].data));
    CHECK_OK(berth_stream_release(machine->runtime, parts->shards[index].stream));
  }
}

static void set_flag(void* user, berth_status status, const char* message) {
  CHECK(status == BERTH_OK && strcmp(message, "") == 0);
  atomic_store((atomic_bool*)user, true);
}

static void wait_and_release(berth_transfer* transfer, size_t bytes) {
  size_t done = 0;
  CHECK_OK(berth_transfer_wait(transfer));
  CHECK_OK(berth_transfer_progress(transfer, &done, NULL));
  CHECK(done == bytes);
  berth_transfer_release(transfer);
}

static void what_is_scattered_is_gathered_again(const struct machine* machine,
                                                const struct parts* parts, unsigned char* host,
                                                unsigned char* back) {
  for (size_t i = 0; i < kWhole; ++i) host[i] = (unsigned char)(i * 7 + i / 251);
  memset(back, 0, kWhole);
  atomic_bool told = false;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_scatter_start(machine->runtime, host, kWhole, machine->stream, parts->shards,
                               kShards, NULL, NULL));
  berth_transfer_options options = BERTH_TRANSFER_OPTIONS_INIT;
  options.on_done = &set_flag;
  options.user = &told;
  CHECK_OK(berth_gather_start(machine->runtime, back, kWhole, machine->stream, parts->shards,
                              kShards, &options, &transfer));
  wait_and_release(transfer, kWhole);
  CHECK(memcmp(host, back, kWhole) == 0);
  CHECK_OK(berth_stream_sync(machine->stream));
  while (!atomic_load(&told)) sched_yield();
}

static void a_broadcast_reaches_every_shard(const struct machine* machine,
                                            const struct parts* parts, unsigned char* host,
                                            unsigned char* back) {
  for (size_t i = 0; i < kBytes; ++i) host[i] = (unsigned char)(i * 5 + i / 127);
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_broadcast_start(machine->runtime, host, kBytes, machine->stream, parts->shards,
                                 kShards, NULL, &transfer));
  wait_and_release(transfer, kWhole);
  CHECK_OK(berth_gather_start(machine->runtime, back, kWhole, machine->stream, parts->shards,
                              kShards, NULL, &transfer));
  wait_and_release(transfer, kWhole);
  CHECK(memcmp(host, back, kBytes) == 0 && memcmp(host, back + kBytes, kBytes) == 0);
}

static void what_does_not_add_up_is_refused(const struct machine* machine,
                                            const struct parts* parts, unsigned char* host) {
  berth_transfer* transfer = NULL;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "target",
              berth_scatter_start(machine->runtime, host, kWhole + 1, machine->stream,
                                  parts->shards, kShards, NULL, &transfer));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "source",
              berth_gather_start(machine->runtime, host, kWhole - 1, machine->stream, parts->shards,
                                 kShards, NULL, &transfer));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "without",
              berth_broadcast_start(machine->runtime, host, kBytes, machine->stream, NULL, 0, NULL,
                                    &transfer));
  berth_shard shards[kShards];
  memcpy(shards, parts->shards, sizeof shards);
  shards[1].stream = (berth_stream){NULL, NULL};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"shards[1].stream\" has no context",
              berth_scatter_start(machine->runtime, host, kWhole, machine->stream, shards, kShards,
                                  NULL, &transfer));
  CHECK(transfer == NULL);
}

void test_collectives(void) {
  struct machine machine = open_machine(NULL);
  struct parts parts = open_parts(&machine);
  unsigned char* const host = malloc(kWhole);
  unsigned char* const back = malloc(kWhole);
  CHECK(host != NULL && back != NULL);
  what_is_scattered_is_gathered_again(&machine, &parts, host, back);
  a_broadcast_reaches_every_shard(&machine, &parts, host, back);
  what_does_not_add_up_is_refused(&machine, &parts, host);
  close_parts(&machine, &parts);
  free(back);
  free(host);
  close_machine(&machine);
}
