// SPDX-License-Identifier: Apache-2.0
// Orders between streams that are missing, or not the ones that were meant.
#include <array>

#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

/// What follows on `later` waits for what `earlier` was given.
void order(CUstream earlier, CUstream later, CUevent event) {
  TRY(cuEventRecord, event, earlier);
  TRY(cuStreamWaitEvent, later, event, 0);
}

void no_wait_for_the_input(Machine& m) {
  const CUdeviceptr staging = m.pinned("staging");
  const CUdeviceptr input = m.memory("input");
  const CUstream copies = m.stream("copies");
  const CUstream kernels = m.stream("kernels");
  const CUevent copied = m.event();
  TRY(cuMemcpyAsync, input, staging, kBytes, copies);
  TRY(cuEventRecord, copied, copies);
  if (!m.planted) TRY(cuStreamWaitEvent, kernels, copied, 0);
  m.launch_reading(kernels, input);
  TRY(cuCtxSynchronize);
}

void wait_before_the_record(Machine& m) {
  const CUdeviceptr gradients = m.memory("gradients");
  const CUstream backward = m.stream("backward");
  const CUstream optimizer = m.stream("optimizer");
  const CUevent ready = m.event();
  if (m.planted) TRY(cuStreamWaitEvent, optimizer, ready, 0);  // for nothing: not recorded yet
  m.launch_writing(backward, gradients);
  TRY(cuEventRecord, ready, backward);
  if (!m.planted) TRY(cuStreamWaitEvent, optimizer, ready, 0);
  m.launch_reading(optimizer, gradients);
  TRY(cuCtxSynchronize);
}

void record_before_the_work(Machine& m) {
  const CUdeviceptr logits = m.memory("logits");
  const CUdeviceptr answer = m.pinned("answer");
  const CUstream kernels = m.stream("kernels");
  const CUstream copies = m.stream("copies");
  const CUevent done = m.event();
  if (m.planted) TRY(cuEventRecord, done, kernels);
  m.launch_writing(kernels, logits);
  if (!m.planted) TRY(cuEventRecord, done, kernels);
  TRY(cuStreamWaitEvent, copies, done, 0);
  TRY(cuMemcpyAsync, answer, logits, kBytes, copies);
  TRY(cuStreamSynchronize, copies);
  TRY(cuStreamSynchronize, kernels);
}

// One event serves two producers, and the second record takes the first one's place.
void event_recorded_again(Machine& m) {
  const CUdeviceptr left = m.memory("left");
  const CUdeviceptr right = m.memory("right");
  const CUstream first = m.stream("first");
  const CUstream second = m.stream("second");
  const CUstream joined = m.stream("joined");
  const CUevent shared = m.event();
  TRY(cuMemsetD8Async, left, 1, kBytes, first);
  TRY(cuEventRecord, shared, first);
  if (!m.planted) TRY(cuStreamWaitEvent, joined, shared, 0);
  TRY(cuMemsetD8Async, right, 1, kBytes, second);
  order(second, joined, shared);
  m.launch_reading(joined, left);
  m.launch_reading(joined, right);
  TRY(cuCtxSynchronize);
}

// A caching allocator's block, free as soon as the host says so.
void block_reused_too_early(Machine& m) {
  const CUdeviceptr block = m.memory("block");
  const CUstream first = m.stream("first");
  const CUstream second = m.stream("second");
  const CUevent freed = m.event();
  m.launch_writing(first, block);
  TRY(cuEventRecord, freed, first);
  if (!m.planted) TRY(cuStreamWaitEvent, second, freed, 0);
  m.launch_writing(second, block);
  TRY(cuCtxSynchronize);
}

void staging_refilled_too_early(Machine& m) {
  const CUdeviceptr staging = m.pinned("staging");
  const CUdeviceptr weights = m.memory("weights");
  const CUdeviceptr results = m.memory("results");
  const CUstream uploads = m.stream("uploads");
  const CUstream downloads = m.stream("downloads");
  const CUevent uploaded = m.event();
  TRY(cuMemcpyAsync, weights, staging, kBytes, uploads);
  TRY(cuEventRecord, uploaded, uploads);
  if (!m.planted) TRY(cuEventSynchronize, uploaded);
  TRY(cuMemcpyAsync, staging, results, kBytes, downloads);
  TRY(cuCtxSynchronize);
}

// Two workers with a slot each; the third batch goes to the first worker's slot again.
void ring_waits_for_the_wrong_event(Machine& m) {
  const CUdeviceptr batches = m.pinned("batches");
  const CUstream copies = m.stream("copies");
  const std::array<CUdeviceptr, 2> slots = {m.memory("slot 0"), m.memory("slot 1")};
  const std::array<CUstream, 2> workers = {m.stream("worker 0"), m.stream("worker 1")};
  const std::array<CUevent, 2> filled = {m.event(), m.event()};
  const std::array<CUevent, 2> consumed = {m.event(), m.event()};
  for (std::size_t batch = 0; batch < 3; ++batch) {
    const std::size_t slot = batch % 2;
    TRY(cuStreamWaitEvent, copies, (m.planted ? filled : consumed)[slot], 0);
    TRY(cuMemcpyAsync, slots[slot], batches, kBytes, copies);
    order(copies, workers[slot], filled[slot]);
    m.launch_reading(workers[slot], slots[slot]);
    TRY(cuEventRecord, consumed[slot], workers[slot]);
  }
  TRY(cuCtxSynchronize);
}

void non_blocking_stream_follows_nothing(Machine& m) {
  const CUdeviceptr table = m.memory("table");
  const CUstream kernels =
      m.stream("kernels", m.planted ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  TRY(cuMemsetD8Async, table, 0, kBytes, nullptr);
  m.launch_reading(kernels, table);
  TRY(cuCtxSynchronize);
}

void per_thread_stream_is_not_the_legacy_one(Machine& m) {
  const CUdeviceptr sums = m.memory("sums");
  const CUdeviceptr answer = m.pinned("answer");
  const CUstream reductions = m.stream("reductions", CU_STREAM_DEFAULT);
  m.launch_writing(reductions, sums);
  TRY(cuMemcpyAsync, answer, sums, kBytes, m.planted ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
  TRY(cuCtxSynchronize);
}

void halves_overlap_by_a_byte(Machine& m) {
  constexpr std::size_t half = kBytes / 2;
  const CUdeviceptr table = m.memory("table");
  m.name(table, half + 1, "half and a byte");
  m.name(table + half, half, "the other half");
  const CUstream first = m.stream("first");
  const CUstream second = m.stream("second");
  TRY(cuMemsetD8Async, table, 1, m.planted ? half + 1 : half, first);
  TRY(cuMemsetD8Async, table + half, 2, half, second);
  TRY(cuCtxSynchronize);
}

void two_addresses_of_the_same_bytes(Machine& m) {
  const CUdeviceptr here = m.reserve("here");
  const CUdeviceptr there = m.reserve("there");
  const CUmemGenericAllocationHandle physical = Machine::create();
  for (const CUdeviceptr address : {here, there}) {
    Machine::map(address, physical);
    Machine::allow(address);
  }
  TRY(cuMemRelease, physical);
  const CUstream first = m.stream("first");
  const CUstream second = m.stream("second");
  TRY(cuMemsetD8Async, here, 1, kMachineGranule, first);
  if (!m.planted) order(first, second, m.event());
  TRY(cuMemsetD8Async, there, 2, kMachineGranule, second);
  TRY(cuCtxSynchronize);
  Machine::unmap(here);
  Machine::unmap(there);
}

void destroyed_stream_is_not_waited_for(Machine& m) {
  const CUdeviceptr scratch = m.memory("scratch");
  const CUstream second = m.stream("second");
  CUstream first = nullptr;
  TRY(cuStreamCreateWithPriority, &first, CU_STREAM_NON_BLOCKING, 0);
  m.name(first, "first");
  m.launch_writing(first, scratch);
  if (!m.planted) TRY(cuStreamSynchronize, first);
  TRY(cuStreamDestroy, first);
  m.launch_writing(second, scratch);
  TRY(cuCtxSynchronize);
}

void host_waits_for_the_wrong_stream(Machine& m) {
  const CUdeviceptr activations = m.memory("activations");
  const CUstream forward = m.stream("forward");
  const CUstream other = m.stream("other");
  const CUstream fills = m.stream("fills");
  m.launch_reading(forward, activations);
  TRY(cuStreamSynchronize, m.planted ? other : forward);
  TRY(cuMemsetD8Async, activations, 0, kBytes, fills);
  TRY(cuCtxSynchronize);
}

void device_does_not_wait_for_its_peer(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr produced = m.memory("produced");
  const CUstream kernels = m.stream("kernels");
  const CUevent ready = m.event();
  m.launch_writing(kernels, produced);
  TRY(cuEventRecord, ready, kernels);
  const Current current(second);
  const CUdeviceptr received = m.memory("received");
  const CUstream fetches = m.stream("fetches");
  if (!m.planted) TRY(cuStreamWaitEvent, fetches, ready, 0);
  TRY(cuMemcpyPeerAsync, received, second, produced, m.context, kBytes, fetches);
  TRY(cuStreamSynchronize, fetches);
}

constexpr Misuse kOrderMisuses[] = {
    {"a kernel does not wait for the copy of its input", no_wait_for_the_input,
     "race: cuMemcpyAsync on stream copies writes input, while a kernel on stream kernels reads "
     "input"},
    {"a wait comes before the record that it is meant for", wait_before_the_record,
     "race: a kernel on stream backward writes gradients, while a kernel on stream optimizer reads "
     "gradients"},
    {"an event is recorded before the work that it is meant for", record_before_the_work,
     "race: a kernel on stream kernels writes logits, while cuMemcpyAsync on stream copies reads "
     "logits"},
    {"an event is recorded again before anybody waited for its first record", event_recorded_again,
     "race: cuMemsetD8Async on stream first writes left, while a kernel on stream joined reads "
     "left"},
    {"a freed block goes to another stream at once", block_reused_too_early,
     "race: a kernel on stream first writes block, while a kernel on stream second writes block"},
    {"a pinned buffer is refilled while the copy out of it is pending", staging_refilled_too_early,
     "race: cuMemcpyAsync on stream uploads reads staging, while cuMemcpyAsync on stream downloads "
     "writes "
     "staging"},
    {"a slot of a ring is filled again once it is filled, not once it is used",
     ring_waits_for_the_wrong_event,
     "race: a kernel on stream worker 0 reads slot 0, while cuMemcpyAsync on stream copies writes "
     "slot 0"},
    {"a non-blocking stream is expected to follow the legacy stream",
     non_blocking_stream_follows_nothing,
     "race: cuMemsetD8Async on the legacy stream writes table, while a kernel on stream kernels "
     "reads "
     "table"},
    {"a thread's default stream is taken for the legacy stream",
     per_thread_stream_is_not_the_legacy_one,
     "race: a kernel on stream reductions writes sums, while cuMemcpyAsync on a thread's default "
     "stream "
     "reads sums"},
    {"two streams fill halves that overlap by a byte", halves_overlap_by_a_byte,
     "race: cuMemsetD8Async on stream first writes half and a byte, while cuMemsetD8Async on "
     "stream second "
     "writes the other half"},
    {"two streams write one physical block by two addresses", two_addresses_of_the_same_bytes,
     "race: cuMemsetD8Async on stream first writes here, while cuMemsetD8Async on stream second "
     "writes there"},
    {"destroying a stream is taken for waiting", destroyed_stream_is_not_waited_for,
     "race: a kernel on stream first writes scratch, while a kernel on stream second writes "
     "scratch"},
    {"the host waits for the wrong stream", host_waits_for_the_wrong_stream,
     "race: a kernel on stream forward reads activations, while cuMemsetD8Async on stream fills "
     "writes "
     "activations"},
    {"a device fetches what its peer has not finished", device_does_not_wait_for_its_peer,
     "race: a kernel on stream kernels writes produced, while cuMemcpyPeerAsync on stream fetches "
     "reads "
     "produced"},
};

}  // namespace

std::span<const Misuse> order_misuses() {
  return kOrderMisuses;
}

}  // namespace berth::test
