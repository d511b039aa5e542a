/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "check.h"
#include "parts.h"

enum { kBytes = 1 << 20 };

static bool is_done(berth_stream stream) {
  bool done = false;
  CHECK_OK(berth_stream_is_done(stream, &done));
  return done;
}

static void a_stream_waits_for_those_it_joins(const struct machine* machine) {
  void* data = NULL;
  berth_stream waiter;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &waiter));
  CHECK_OK(berth_fill_async(machine->runtime, data, 1, kBytes, machine->stream));
  const berth_stream streams[] = {machine->stream, waiter};
  CHECK_OK(berth_stream_join(machine->runtime, waiter, streams, 2));
  if (work_stays_pending(machine)) CHECK(!is_done(waiter));
  CHECK_OK(berth_stream_sync(waiter));
  CHECK(is_done(machine->stream));
  CHECK_OK(berth_stream_join(machine->runtime, waiter, NULL, 0));
  CHECK_OK(berth_stream_release(machine->runtime, waiter));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void side_streams_are_behind_their_parent_and_it_behind_them(const struct machine* machine) {
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  CHECK_OK(berth_fill_async(machine->runtime, data, 1, kBytes, machine->stream));
  for (int joins = 0; joins < 2; ++joins) {
    berth_stream side[2];
    berth_fork* fork = NULL;
    CHECK_OK(berth_fork_begin(machine->runtime, machine->stream, 2, -1, side, &fork));
    CHECK(side[0].native != side[1].native);
    CHECK_OK(berth_fill_async(machine->runtime, data, 2, kBytes / 2, side[0]));
    CHECK_OK(berth_fill_async(machine->runtime, (char*)data + kBytes / 2, 3, kBytes / 2, side[1]));
    if (joins == 1) CHECK_OK(berth_fork_join(fork));
    berth_fork_end(fork);
    char last = 0;
    CHECK_OK(
        berth_copy_sync(machine->runtime, &last, (char*)data + kBytes - 1, 1, machine->stream));
    CHECK(last == 3);
  }
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));

  berth_fork* fork = NULL;
  CHECK_OK(berth_fork_begin(machine->runtime, machine->stream, 0, 0, NULL, &fork));
  berth_fork_end(fork);
  berth_stream side;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "priority",
              berth_fork_begin(machine->runtime, machine->stream, 1, 1, &side, &fork));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "accepted: 0 to 65536",
              berth_fork_begin(machine->runtime, machine->stream, 65537, 0, &side, &fork));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"streams\" has 18446744073709551615 elements, perhaps a",
              berth_fork_begin(machine->runtime, machine->stream, SIZE_MAX, 0, &side, &fork));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"streams\" has 18446744073709551615 elements, perhaps a",
              berth_stream_join(machine->runtime, machine->stream, &machine->stream, SIZE_MAX));
}

struct completion {
  atomic_int calls;
  berth_status status;
  char message[64];
};

static void note(void* user, berth_status status, const char* message) {
  struct completion* const completion = user;
  completion->status = status;
  strncpy(completion->message, message, sizeof completion->message - 1);
  atomic_fetch_add(&completion->calls, 1);
}

static void a_callback_is_called_at_the_latest_when_its_runtime_ends(void) {
  struct machine machine = open_machine(NULL);
  struct completion completion = {0, BERTH_INTERNAL_ERROR, "not called"};
  CHECK_OK(berth_stream_when_done(machine.runtime, machine.stream, &note, &completion));
  close_machine(&machine);
  CHECK(atomic_load(&completion.calls) == 1);
  CHECK(completion.status == BERTH_OK);
  CHECK(strcmp(completion.message, "") == 0);
}

static void nothing_is_captured_here(const struct machine* machine) {
  bool captured = true;
  CHECK_OK(berth_stream_is_capturing(machine->stream, &captured));
  CHECK(!captured);
  berth_relaxed_capture_scope* scope = NULL;
  CHECK_OK(berth_relaxed_capture_scope_enter(machine->stream, &scope));
  CHECK_OK(berth_stream_sync(machine->stream));
  berth_relaxed_capture_scope_leave(scope);
}

void test_order(void) {
  struct machine machine = open_machine(NULL);
  a_stream_waits_for_those_it_joins(&machine);
  side_streams_are_behind_their_parent_and_it_behind_them(&machine);
  nothing_is_captured_here(&machine);
  close_machine(&machine);
  a_callback_is_called_at_the_latest_when_its_runtime_ends();
}
