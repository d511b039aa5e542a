/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "parts.h"

enum { kBytes = 1000 };

/// The first of the bytes at `data`, behind the work of the machine's stream.
static unsigned char first_byte(const struct machine* machine, const void* data) {
  unsigned char byte = 0;
  CHECK_OK(berth_copy_sync(machine->runtime, &byte, data, 1, machine->stream));
  return byte;
}

static berth_graph* graph_of_a_fill(const struct machine* machine, void* data, uint8_t value) {
  berth_graph_capture* capture = NULL;
  berth_graph* graph = NULL;
  CHECK_OK(berth_graph_capture_begin(machine->stream, &capture));
  CHECK_OK(berth_fill_async(machine->runtime, data, value, kBytes, machine->stream));
  CHECK_OK(berth_graph_capture_end(capture, &graph));
  berth_graph_capture_release(capture);
  return graph;
}

static void a_graph_runs_with_each_replay(const struct machine* machine, void* data) {
  CHECK_OK(berth_fill_async(machine->runtime, data, 1, kBytes, machine->stream));
  berth_graph* const graph = graph_of_a_fill(machine, data, 5);
  CHECK(first_byte(machine, data) == 1);
  for (int replays = 0; replays < 2; ++replays) {
    CHECK_OK(berth_fill_async(machine->runtime, data, 2, kBytes, machine->stream));
    CHECK_OK(berth_graph_replay(graph, machine->stream));
    CHECK(first_byte(machine, data) == 5);
  }
  berth_device device = berth_device_cpu();
  struct CUgraphExec_st* native = NULL;
  CHECK_OK(berth_graph_get_device(graph, &device));
  CHECK_OK(berth_graph_get_native(graph, &native));
  CHECK(berth_device_is_same(device, machine->device) && native != NULL);

  CHECK_OK(berth_fill_async(machine->runtime, data, 3, kBytes, machine->stream));
  CHECK_OK(berth_graph_replay(graph, machine->stream));
  berth_graph_destroy(graph);  // the replay goes on
  CHECK(first_byte(machine, data) == 5);
  berth_graph_destroy(NULL);
}

static void captures_end_well_or_not_at_all(const struct machine* machine, void* data) {
  berth_graph_capture* capture = NULL;
  berth_graph_capture* nested = NULL;
  berth_graph* graph = NULL;
  CHECK_OK(berth_graph_capture_begin(machine->stream, &capture));
  CHECK_FAILS(BERTH_STREAM_CAPTURED, "while it is captured",
              berth_graph_capture_begin(machine->stream, &nested));
  CHECK(nested == NULL);
  CHECK_OK(berth_fill_async(machine->runtime, data, 9, kBytes, machine->stream));
  berth_graph_capture_release(capture);  // with its work
  bool is_capturing = true;
  CHECK_OK(berth_stream_is_capturing(machine->stream, &is_capturing));
  CHECK(!is_capturing && first_byte(machine, data) != 9);

  graph = graph_of_a_fill(machine, data, 6);
  CHECK_OK(berth_graph_capture_begin(machine->stream, &capture));
  CHECK_FAILS(BERTH_STREAM_CAPTURED, "replay", berth_graph_replay(graph, machine->stream));
  berth_graph* empty = NULL;
  CHECK_OK(berth_graph_capture_end(capture, &empty));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "has ended", berth_graph_capture_end(capture, &empty));
  berth_graph_capture_release(capture);
  berth_graph_destroy(empty);
  berth_graph_destroy(graph);
  berth_graph_capture_release(NULL);

  berth_stream legacy;
  CHECK_OK(berth_stream_from_native(machine->runtime, machine->device, NULL, &legacy));
  CHECK_FAILS(BERTH_INVALID_ARGUMENT, "legacy", berth_graph_capture_begin(legacy, &capture));
}

void test_graphs(void) {
  struct machine machine = open_machine(NULL);
  void* data = NULL;
  CHECK_OK(berth_allocator_allocate(machine.memory, kBytes, machine.stream, &data));
  a_graph_runs_with_each_replay(&machine, data);
  captures_end_well_or_not_at_all(&machine, data);
  CHECK_OK(berth_allocator_deallocate(machine.memory, data));
  close_machine(&machine);
}
