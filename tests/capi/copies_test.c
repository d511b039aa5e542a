/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "check.h"
#include "parts.h"

enum { kBytes = 3 << 20 };

static berth_copy_counters read_counters(berth_runtime* runtime) {
  berth_copy_counters counters = BERTH_COPY_COUNTERS_INIT;
  CHECK_OK(berth_copy_get_counters(runtime, &counters));
  return counters;
}

static void fill_pattern(unsigned char* data) {
  for (size_t i = 0; i < kBytes; ++i) data[i] = (unsigned char)(i * 7 + i / 251);
}

/// From `host` to the device and back into `back`, each of whatever kind.
static void bytes_survive_the_way_there_and_back(const struct machine* machine, unsigned char* host,
                                                 unsigned char* back) {
  fill_pattern(host);
  memset(back, 0, kBytes);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  const berth_copy_counters before = read_counters(machine->runtime);
  CHECK_OK(berth_copy_async(machine->runtime, data, host, kBytes, machine->stream));
  CHECK_OK(berth_copy_sync(machine->runtime, back, data, kBytes, machine->stream));
  CHECK(memcmp(host, back, kBytes) == 0);

  CHECK_OK(berth_fill_async(machine->runtime, data, 0x5C, kBytes, machine->stream));
  CHECK_OK(berth_copy_sync(machine->runtime, back, data, kBytes, machine->stream));
  CHECK(back[0] == 0x5C && memcmp(back, back + 1, kBytes - 1) == 0);
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));

  const berth_copy_counters after = read_counters(machine->runtime);
  CHECK(after.bytes_copied == before.bytes_copied + 3 * (uint64_t)kBytes);
  CHECK(after.copies_direct + after.copies_staged ==
        before.copies_direct + before.copies_staged + 3);
}

static void set_flag(void* user, berth_status status, const char* message) {
  CHECK(status == BERTH_OK && strcmp(message, "") == 0);
  atomic_store((atomic_bool*)user, true);
}

static void count_release(void* owner) {
  atomic_fetch_add((atomic_int*)owner, 1);
}

static void a_transfer_returns_at_once_and_is_waited_for(const struct machine* machine,
                                                         unsigned char* host, unsigned char* back) {
  fill_pattern(host);
  memset(back, 0, kBytes);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  atomic_bool told = false;
  bool done = false;
  size_t bytes = 0;
  double rate = 0;
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_transfer_start(machine->runtime, data, host, kBytes, machine->stream, NULL, NULL));
  berth_transfer_options options = BERTH_TRANSFER_OPTIONS_INIT;
  options.on_done = &set_flag;
  options.user = &told;
  atomic_int releases = 0;
  options.release = &count_release;
  options.owner = &releases;
  options.has_priority = 1;
  options.priority = -1;
  CHECK_OK(berth_transfer_start(machine->runtime, back, data, kBytes, machine->stream, &options,
                                &transfer));
  CHECK_OK(berth_transfer_wait(transfer));
  CHECK(memcmp(host, back, kBytes) == 0);
  CHECK_OK(berth_transfer_is_done(transfer, &done));
  CHECK_OK(berth_transfer_check(transfer));
  CHECK_OK(berth_transfer_get_bytes(transfer, &bytes));
  CHECK(bytes == kBytes);
  CHECK_OK(berth_transfer_progress(transfer, &bytes, &rate));
  CHECK(done && bytes == kBytes && rate > 0);
  CHECK_OK(berth_transfer_progress(transfer, NULL, NULL));
  berth_transfer_cancel(transfer);  // too late: no operation
  CHECK_OK(berth_transfer_wait(transfer));
  berth_transfer_release(transfer);

  transfer = NULL;
  CHECK_FAILS(
      BERTH_INVALID_ARGUMENT, "overlap",
      berth_transfer_start(machine->runtime, host, host, 1, machine->stream, &options, &transfer));
  CHECK(transfer == NULL);
  options.struct_size = sizeof options + 8;
  CHECK_FAILS(
      BERTH_INVALID_ARGUMENT, "\"options\"",
      berth_transfer_start(machine->runtime, back, data, 1, machine->stream, &options, &transfer));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
  CHECK_OK(berth_stream_sync(machine->stream));
  while (!atomic_load(&told) || atomic_load(&releases) == 0) sched_yield();
  CHECK(atomic_load(&releases) == 1);  // not by the calls that failed
}

static void rows_and_batches_arrive(const struct machine* machine, unsigned char* host,
                                    unsigned char* back) {
  fill_pattern(host);
  memset(back, 0, kBytes);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  // Four rows of 100 B: the first column of the host's matrix, packed on the device.
  CHECK_OK(berth_transfer_start_rows(machine->runtime, data, 100, host, 1000, 100, 4,
                                     machine->stream, NULL, NULL));
  unsigned char* const device = data;
  const berth_copy_range copies[] = {
      {back, device + 300, 100}, {back + 500, device, 100}, {NULL, NULL, 0}};
  berth_transfer* transfer = NULL;
  CHECK_OK(
      berth_transfer_start_batch(machine->runtime, copies, 3, machine->stream, NULL, &transfer));
  CHECK_OK(berth_transfer_wait(transfer));
  berth_transfer_release(transfer);
  CHECK(memcmp(back, host + 3000, 100) == 0 && memcmp(back + 500, host, 100) == 0);
  CHECK(back[100] == 0 && back[499] == 0);
  CHECK_OK(berth_transfer_start_batch(machine->runtime, NULL, 0, machine->stream, NULL, NULL));
  CHECK_FAILS(
      BERTH_INVALID_ARGUMENT, "\"copies\" has 18446744073709551615 elements, perhaps a",
      berth_transfer_start_batch(machine->runtime, copies, SIZE_MAX, machine->stream, NULL, NULL));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "pitch",
              berth_transfer_start_rows(machine->runtime, data, 99, host, 1000, 100, 4,
                                        machine->stream, NULL, NULL));
  const berth_copy_range twice[] = {{back, device, 100}, {back + 50, device + 200, 100}};
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "overlaps",
              berth_transfer_start_batch(machine->runtime, twice, 2, machine->stream, NULL, NULL));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void copies_come_between_two_streams(const struct machine* machine, unsigned char* host,
                                            unsigned char* back) {
  fill_pattern(host);
  memset(back, 0, kBytes);
  berth_stream other;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &other));
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_transfer_start_between(machine->runtime, data, host, kBytes, other,
                                        machine->stream, NULL, NULL));
  // Both streams have waited for the copy: either may read what it wrote.
  unsigned char* const device = data;
  const berth_copy_range copies[] = {{back, device, 100}, {back + 100, device + 100, kBytes - 100}};
  berth_transfer* transfer = NULL;
  CHECK_OK(berth_transfer_start_batch_between(machine->runtime, copies, 2, machine->stream, other,
                                              NULL, &transfer));
  CHECK_OK(berth_transfer_wait(transfer));
  berth_transfer_release(transfer);
  CHECK(memcmp(host, back, kBytes) == 0);
  // Rows, and copies without a transfer: either stream finds what the copy before has written.
  memset(host, 1, 100);
  CHECK_OK(berth_copy_async_between(machine->runtime, data, host, 100, other, machine->stream));
  CHECK_OK(berth_transfer_start_rows_between(machine->runtime, device + 200, 50, device, 20, 10, 5,
                                             machine->stream, other, NULL, NULL));
  CHECK_OK(berth_copy_async_between(machine->runtime, back, data, kBytes, machine->stream, other));
  // No stream on the host's side: that of the other side alone.
  const berth_stream none = {NULL, NULL};
  back[0] = back[100] = 0;
  CHECK_OK(berth_copy_async_between(machine->runtime, data, host + 1, 100, machine->stream, none));
  CHECK_OK(berth_copy_sync_between(machine->runtime, back, data, 100, none, machine->stream));
  CHECK(memcmp(back, host + 1, 100) == 0 && back[100] == 0);
  CHECK_OK(berth_copy_sync_between(machine->runtime, data, host, 100, machine->stream, other));
  CHECK_OK(berth_copy_sync_between(machine->runtime, back, data, kBytes, other, other));
  CHECK(memcmp(back, host, 100) == 0 && memcmp(back + 100, host + 100, 100) == 0);
  for (size_t row = 0; row < 5; ++row) {
    CHECK(memcmp(back + 200 + 50 * row, host, 10) == 0);
    CHECK(memcmp(back + 210 + 50 * row, host + 210 + 50 * row, 40) == 0);
  }
  CHECK_OK(berth_stream_sync(machine->stream));
  CHECK_OK(berth_stream_release(machine->runtime, other));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void memory_of_the_wrong_place_is_refused(const struct machine* machine,
                                                 unsigned char* host) {
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "",
              berth_copy_async(machine->runtime, host, host + 1, 2, machine->stream));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "",
              berth_fill_async(machine->runtime, host, 0, 1, machine->stream));
  CHECK_OK(berth_copy_async(machine->runtime, host, host, 0, machine->stream));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "overlap", berth_copy_host(machine->runtime, host, host, 1));
}

void test_copies(void) {
  struct machine machine = open_machine(NULL);
  unsigned char* const host = malloc(kBytes);
  unsigned char* const back = malloc(kBytes);
  CHECK(host != NULL && back != NULL);
  void* pinned = NULL;
  CHECK_OK(berth_allocator_allocate_pinned(machine.pinned, kBytes, &pinned));

  bytes_survive_the_way_there_and_back(&machine, host, back);
  bytes_survive_the_way_there_and_back(&machine, pinned, back);
  bytes_survive_the_way_there_and_back(&machine, host, pinned);
  a_transfer_returns_at_once_and_is_waited_for(&machine, host, back);
  rows_and_batches_arrive(&machine, host, back);
  copies_come_between_two_streams(&machine, host, back);
  memory_of_the_wrong_place_is_refused(&machine, host);

  CHECK_OK(berth_allocator_deallocate(machine.pinned, pinned));
  free(back);
  free(host);
  close_machine(&machine);
}
