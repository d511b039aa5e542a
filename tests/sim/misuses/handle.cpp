// SPDX-License-Identifier: Apache-2.0
// Streams and events that are gone or unfit, and callbacks that call back.
#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

void stream_used_after_its_end(Machine& m) {
  const CUdeviceptr table = m.memory("table");
  CUstream fills = nullptr;
  TRY(cuStreamCreateWithPriority, &fills, CU_STREAM_NON_BLOCKING, 0);
  if (m.planted) TRY(cuStreamDestroy, fills);
  TRY(cuMemsetD8Async, table, 0, kBytes, fills);
  TRY(cuStreamSynchronize, fills);
  TRY(cuStreamDestroy, fills);
}

// A new stream may be in the old one's place, but its handle is another.
void stream_destroyed_twice(Machine& m) {
  CUstream fills = nullptr;
  TRY(cuStreamCreateWithPriority, &fills, CU_STREAM_NON_BLOCKING, 0);
  TRY(cuStreamDestroy, fills);
  m.stream("next");
  if (m.planted) TRY(cuStreamDestroy, fills);
}

void event_used_after_its_end(Machine& m) {
  const CUstream kernels = m.stream("kernels");
  CUevent ready = nullptr;
  TRY(cuEventCreate, &ready, CU_EVENT_DISABLE_TIMING);
  if (m.planted) TRY(cuEventDestroy, ready);
  TRY(cuStreamWaitEvent, kernels, ready, 0);
  TRY(cuEventDestroy, ready);
}

void event_destroyed_twice(Machine& m) {
  CUevent ready = nullptr;
  TRY(cuEventCreate, &ready, CU_EVENT_DISABLE_TIMING);
  TRY(cuEventDestroy, ready);
  if (m.planted) TRY(cuEventDestroy, ready);
}

void time_of_events_without_timing(Machine& m) {
  const unsigned flags = m.planted ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT;
  const CUstream kernels = m.stream("kernels");
  const CUdeviceptr table = m.memory("table");
  const CUevent start = m.event(flags);
  const CUevent end = m.event(flags);
  TRY(cuEventRecord, start, kernels);
  m.launch_reading(kernels, table);
  TRY(cuEventRecord, end, kernels);
  TRY(cuEventSynchronize, end);
  float milliseconds = 0;
  TRY(cuEventElapsedTime, &milliseconds, start, end);
}

// Once a batch is copied, its buffer could be freed: but not from there.
void callback_calls_the_driver(Machine& m) {
  struct Batch {
    bool frees;
    CUdeviceptr buffer;
    CUresult freed;
  };
  CUdeviceptr buffer = 0;
  TRY(cuMemAlloc, &buffer, kBytes);
  Batch batch{m.planted, buffer, CUDA_SUCCESS};
  const CUstream copies = m.stream("copies");
  const CUhostFn done = [](void* data) {
    Batch& copied = *static_cast<Batch*>(data);
    if (copied.frees) copied.freed = CU(cuMemFree)(copied.buffer);
  };
  TRY(cuMemsetD8Async, buffer, 0, kBytes, copies);
  TRY(cuLaunchHostFunc, copies, done, &batch);
  TRY(cuStreamSynchronize, copies);
  check("cuMemFree", batch.freed);
  TRY(cuMemFree, buffer);
}

constexpr Misuse kHandleMisuses[] = {
    {"a stream is used after its end", stream_used_after_its_end,
     "cuMemsetD8Async: CUDA_ERROR_INVALID_HANDLE"},
    {"a stream is destroyed twice", stream_destroyed_twice,
     "cuStreamDestroy: CUDA_ERROR_INVALID_HANDLE"},
    {"an event is used after its end", event_used_after_its_end,
     "cuStreamWaitEvent: CUDA_ERROR_INVALID_HANDLE"},
    {"an event is destroyed twice", event_destroyed_twice,
     "cuEventDestroy: CUDA_ERROR_INVALID_HANDLE"},
    {"the time between events without timing is asked for", time_of_events_without_timing,
     "cuEventElapsedTime: CUDA_ERROR_INVALID_HANDLE"},
    {"a host function calls the driver", callback_calls_the_driver,
     "cuMemFree: CUDA_ERROR_NOT_PERMITTED"},
};

}  // namespace

std::span<const Misuse> handle_misuses() {
  return kHandleMisuses;
}

}  // namespace berth::test
