// SPDX-License-Identifier: Apache-2.0
// Programs that get on only where the hardware has room for them.
#include <atomic>

#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

CUdeviceptr make_flag(Machine& m) {
  const CUdeviceptr flag = m.pinned("flag", 4);
  m.name(reinterpret_cast<const void*>(flag), "flag");
  std::atomic_ref(*reinterpret_cast<cuuint32_t*>(flag)).store(0);
  return flag;
}

void raise(CUdeviceptr flag) {
  std::atomic_ref(*reinterpret_cast<cuuint32_t*>(flag)).store(1);
}

// Two streams that meet: the one that waits is given its wait first.
void value_is_written_behind_its_wait(Machine& m) {
  const CUdeviceptr flag = make_flag(m);
  const CUstream consumer = m.stream("consumer");
  const CUstream producer = m.stream("producer");
  if (!m.planted) TRY(cuStreamWriteValue32, producer, flag, 1, 0);
  TRY(cuStreamWaitValue32, consumer, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (m.planted) TRY(cuStreamWriteValue32, producer, flag, 1, 0);
  TRY(cuCtxSynchronize);
}

// A gate that the host opens, after it has waited for something else.
void gate_is_opened_after_a_wait(Machine& m) {
  const CUdeviceptr flag = make_flag(m);
  const CUdeviceptr batch = m.memory("batch");
  const CUstream gated = m.stream("gated");
  const CUstream copies = m.stream("copies");
  TRY(cuStreamWaitValue32, gated, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  TRY(cuMemsetD8Async, batch, 1, kBytes, copies);
  if (!m.planted) raise(flag);
  TRY(cuStreamSynchronize, copies);
  raise(flag);
  TRY(cuCtxSynchronize);
}

// A long series of pieces behind a gate that the same thread opens.
void queue_is_filled_behind_a_gate(Machine& m) {
  const CUdeviceptr flag = make_flag(m);
  const CUdeviceptr tensor = m.memory("tensor");
  const CUstream copies = m.stream("copies");
  TRY(cuStreamWaitValue32, copies, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  for (int piece = 0; piece < 8; ++piece) {
    if (!m.planted) raise(flag);
    TRY(cuMemsetD8Async, tensor, 1, kBytes, copies);
  }
  raise(flag);
  TRY(cuCtxSynchronize);
}

const Misuse kProgressMisuses[] = {
    {"a value is waited for before the work that writes it is submitted",
     value_is_written_behind_its_wait,
     "shared channel: cuStreamWriteValue32 on stream producer stands only behind "
     "cuStreamWaitValue32 "
     "on stream consumer in one of 1 hardware channels, which waits for the 32 bits at flag, now "
     "0, "
     "to reach 1; nothing that is pending changes them, and no thread has for 20 ms (stall_ms): "
     "the "
     "stream has a channel of its own from now on",
     nullptr, "connections=1,stall_ms=20"},
    {"the host waits for a stream before it opens another's gate", gate_is_opened_after_a_wait,
     "shared channel: cuMemsetD8Async on stream copies stands only behind cuStreamWaitValue32 on "
     "stream gated in one of 1 hardware channels, which waits for the 32 bits at flag, now 0, to "
     "reach 1; nothing that is pending changes them, and no thread has for 20 ms (stall_ms): the "
     "stream has a channel of its own from now on",
     nullptr, "connections=1,stall_ms=20"},
    {"a thread fills a queue behind a gate that it opens itself", queue_is_filled_behind_a_gate,
     "cuMemsetD8Async: CUDA_ERROR_LAUNCH_TIMEOUT\n"
     "full queue: cuMemsetD8Async on stream copies, which holds 4 operations behind "
     "cuStreamWaitValue32, which waits for the 32 bits at flag, now 0, to reach 1; nothing has run "
     "for 20 ms (stall_ms): the call fails",
     nullptr, "queue=4,stall_ms=20"},
};

}  // namespace

std::span<const Misuse> progress_misuses() {
  return kProgressMisuses;
}

}  // namespace berth::test
