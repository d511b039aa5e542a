/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

enum { kBytes = 1 << 20 };

static bool is_done(berth_stream stream) {
  bool done = false;
  CHECK_OK(berth_stream_is_done(stream, &done));
  return done;
}

static bool has_completed(berth_event event) {
  bool done = false;
  CHECK_OK(berth_event_is_done(event, &done));
  return done;
}

static bool same_stream(berth_stream a, berth_stream b) {
  return a.context == b.context && a.native == b.native;
}

static void live_leases_are_different_streams(const struct machine* machine) {
  berth_stream other;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &other));
  CHECK(other.native != NULL);
  CHECK(!same_stream(other, machine->stream));
  CHECK_OK(berth_stream_release(machine->runtime, other));
  berth_stream again;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &again));
  CHECK(same_stream(again, other));
  CHECK_OK(berth_stream_release(machine->runtime, again));

  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "priority",
              berth_stream_acquire(machine->runtime, machine->device, 1, &again));
}

static void what_a_pool_owns_nobody_destroys(const struct machine* machine) {
  berth_stream leased;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &leased));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "belongs to the pool", berth_stream_destroy(leased));
  CHECK_OK(berth_stream_release(machine->runtime, leased));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "belongs to the pool", berth_stream_destroy(leased));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not on lease",
              berth_stream_release(machine->runtime, leased));
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &leased));
  CHECK_OK(berth_stream_sync(leased));
  CHECK_OK(berth_stream_release(machine->runtime, leased));

  berth_event event;
  CHECK_OK(berth_event_acquire(machine->runtime, machine->device, 0, &event));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "belongs to the pool", berth_event_destroy(event));
  CHECK_OK(berth_event_release(machine->runtime, event));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "belongs to the pool", berth_event_destroy(event));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not on lease", berth_event_release(machine->runtime, event));
}

static void stream_knows_its_device(const struct machine* machine) {
  berth_device device = {-7, -7};
  CHECK_OK(berth_stream_get_device(machine->stream, &device));
  CHECK(device.type == BERTH_DEVICE_CUDA && device.ordinal == machine->device.ordinal);
}

static void own_stream_can_be_made_referred_to_and_destroyed(const struct machine* machine) {
  berth_stream own;
  CHECK_OK(berth_stream_create(machine->runtime, machine->device, -1,
                               BERTH_STREAM_BLOCKS_WITH_LEGACY_DEFAULT, &own));
  berth_stream same;
  CHECK_OK(berth_stream_from_native(machine->runtime, machine->device, own.native, &same));
  CHECK(same_stream(own, same));
  CHECK_OK(berth_stream_sync(same));
  CHECK_OK(berth_stream_destroy(own));

  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"flags\"",
              berth_stream_create(machine->runtime, machine->device, 0, 8, &own));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "priority",
              berth_stream_create(machine->runtime, machine->device, 1, 0, &own));
}

static void legacy_default_stream_belongs_to_nobody(const struct machine* machine) {
  berth_stream legacy;
  CHECK_OK(berth_stream_from_native(machine->runtime, machine->device, NULL, &legacy));
  CHECK_OK(berth_stream_sync(legacy));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "legacy", berth_stream_destroy(legacy));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not on lease",
              berth_stream_release(machine->runtime, legacy));
}

static void per_thread_default_stream_belongs_to_nobody(const struct machine* machine) {
  berth_stream own;
  CHECK_OK(berth_stream_get_per_thread_default(machine->runtime, machine->device, &own));
  CHECK(own.native != NULL);
  CHECK_OK(berth_stream_sync(own));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "per-thread", berth_stream_destroy(own));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "not on lease", berth_stream_release(machine->runtime, own));
}

static void check_current(const struct machine* machine, berth_stream expected) {
  berth_stream current;
  CHECK_OK(berth_stream_get_current(machine->runtime, machine->device, &current));
  CHECK(same_stream(current, expected));
}

static void current_stream_is_what_the_innermost_guard_says(const struct machine* machine) {
  berth_stream legacy;
  berth_stream own;
  CHECK_OK(berth_stream_from_native(machine->runtime, machine->device, NULL, &legacy));
  CHECK_OK(berth_stream_create(machine->runtime, machine->device, 0, 0, &own));
  check_current(machine, legacy);
  berth_stream_guard* outer = NULL;
  berth_stream_guard* inner = NULL;
  CHECK_OK(berth_stream_guard_enter(machine->stream, &outer));
  CHECK_OK(berth_stream_guard_enter(own, &inner));
  check_current(machine, own);
  berth_stream_guard_leave(inner);
  check_current(machine, machine->stream);
  berth_stream_guard_leave(outer);
  check_current(machine, legacy);
  berth_stream_guard_leave(NULL);
  CHECK_OK(berth_stream_destroy(own));
}

static void event_marks_the_work_before_it(const struct machine* machine) {
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine->memory, kBytes, machine->stream, &data));
  berth_stream waiting;
  CHECK_OK(berth_stream_acquire(machine->runtime, machine->device, 0, &waiting));

  CHECK_OK(berth_fill_async(machine->runtime, data, 1, kBytes, machine->stream));
  berth_event marked;
  CHECK_OK(berth_event_acquire_recorded(machine->runtime, machine->stream, &marked));
  CHECK_OK(berth_stream_wait(waiting, marked));
  CHECK_OK(berth_fill_async(machine->runtime, data, 2, kBytes, waiting));
  if (work_stays_pending(machine)) {
    CHECK(!is_done(machine->stream));
    CHECK(!is_done(waiting));
    CHECK(!has_completed(marked));
  }
  CHECK_OK(berth_stream_sync(waiting));
  CHECK(is_done(waiting));
  CHECK(has_completed(marked));

  CHECK_OK(berth_event_release(machine->runtime, marked));
  CHECK_OK(berth_stream_sync(machine->stream));
  CHECK_OK(berth_stream_release(machine->runtime, waiting));
  CHECK_OK(berth_allocator_deallocate(machine->memory, data));
}

static void timing_events_measure_between_their_marks(const struct machine* machine) {
  berth_event start;
  berth_event end;
  CHECK_OK(berth_event_acquire(machine->runtime, machine->device, BERTH_EVENT_TIMING, &start));
  CHECK_OK(berth_event_create(machine->runtime, machine->device, BERTH_EVENT_TIMING, &end));
  CHECK_OK(berth_event_record(start, machine->stream));
  CHECK_OK(berth_event_record(end, machine->stream));
  CHECK_OK(berth_event_sync(end));
  float elapsed_ms = -1;
  CHECK_OK(berth_event_elapsed_ms(start, end, &elapsed_ms));
  CHECK(elapsed_ms >= 0);
  CHECK_OK(berth_event_destroy(end));
  CHECK_OK(berth_event_release(machine->runtime, start));
}

static void event_without_timing_measures_nothing(const struct machine* machine) {
  berth_event plain;
  CHECK_OK(berth_event_create(machine->runtime, machine->device, 0, &plain));
  berth_event same;
  CHECK_OK(berth_event_from_native(machine->runtime, machine->device, plain.native, &same));
  CHECK(same.context == plain.context && same.native == plain.native);
  berth_device device = {-7, -7};
  CHECK_OK(berth_event_get_device(same, &device));
  CHECK(device.type == BERTH_DEVICE_CUDA && device.ordinal == machine->device.ordinal);

  CHECK_OK(berth_event_record(plain, machine->stream));
  CHECK_OK(berth_event_sync(plain));
  float elapsed_ms = -1;
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "EventOptions::timing",
              berth_event_elapsed_ms(plain, plain, &elapsed_ms));
  CHECK(elapsed_ms == -1);
  CHECK_OK(berth_event_destroy(plain));

  CHECK_FAILS(
      BERTH_INVALID_ARGUMENT, "\"flags\"",
      berth_event_acquire(machine->runtime, machine->device, BERTH_EVENT_INTERPROCESS, &plain));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "\"flags\"",
              berth_event_create(machine->runtime, machine->device, 4, &plain));
}

static void event_for_other_processes_has_a_handle(const struct machine* machine) {
  berth_event event;
  CHECK_OK(berth_event_create(machine->runtime, machine->device, BERTH_EVENT_INTERPROCESS, &event));
  CHECK_OK(berth_event_record(event, machine->stream));
  CHECK_OK(berth_event_sync(event));
  berth_ipc_event_handle handle = {{0}};
  berth_event opened;
  CHECK_FAILS(BERTH_DRIVER_ERROR, "cuIpcOpenEventHandle",
              berth_event_open(machine->runtime, machine->device, &handle, &opened));
  CHECK_OK(berth_event_get_ipc_handle(event, &handle));
  CHECK(handle.bytes[0] != 0);
  CHECK_OK(berth_event_destroy(event));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "timing",
              berth_event_create(machine->runtime, machine->device,
                                 BERTH_EVENT_INTERPROCESS | BERTH_EVENT_TIMING, &event));
}

void test_streams_and_events(void) {
  struct machine machine = open_machine(NULL);
  live_leases_are_different_streams(&machine);
  what_a_pool_owns_nobody_destroys(&machine);
  stream_knows_its_device(&machine);
  own_stream_can_be_made_referred_to_and_destroyed(&machine);
  legacy_default_stream_belongs_to_nobody(&machine);
  per_thread_default_stream_belongs_to_nobody(&machine);
  event_for_other_processes_has_a_handle(&machine);
  current_stream_is_what_the_innermost_guard_says(&machine);
  event_marks_the_work_before_it(&machine);
  timing_events_measure_between_their_marks(&machine);
  event_without_timing_measures_nothing(&machine);
  close_machine(&machine);
}
