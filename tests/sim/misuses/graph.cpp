// SPDX-License-Identifier: Apache-2.0
// Rules of captures that are broken, and graphs that race.
#include <thread>

#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

/// What `body` does while `stream` is being captured; the graph is thrown away.
template <class Body>
void capture(CUstream stream, Body&& body) {
  CUgraph graph = nullptr;
  TRY(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  body();
  TRY(cuStreamEndCapture, stream, &graph);
  TRY(cuGraphDestroy, graph);
}

void allocation_in_a_capture(Machine& m) {
  const CUstream frames = m.stream("frames");
  if (!m.planted) m.memory("image");
  capture(frames, [&] {
    if (m.planted) m.memory("image");
  });
}

void wait_in_a_capture(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUdeviceptr image = m.memory("image");
  capture(frames, [&] {
    TRY(cuMemsetD8Async, image, 0, kBytes, frames);
    if (m.planted) TRY(cuStreamSynchronize, frames);
  });
}

void event_of_a_capture_is_asked(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUdeviceptr image = m.memory("image");
  const CUevent cleared = m.event();
  capture(frames, [&] {
    TRY(cuMemsetD8Async, image, 0, kBytes, frames);
    TRY(cuEventRecord, cleared, frames);
    if (m.planted) TRY(cuEventQuery, cleared);
  });
}

void capture_waits_for_work_outside(Machine& m) {
  const CUstream uploads = m.stream("uploads");
  const CUstream frames = m.stream("frames");
  const CUevent uploaded = m.event();
  TRY(cuEventRecord, uploaded, uploads);
  if (!m.planted) TRY(cuStreamWaitEvent, frames, uploaded, 0);
  capture(frames, [&] {
    if (m.planted) TRY(cuStreamWaitEvent, frames, uploaded, 0);
  });
  TRY(cuStreamSynchronize, frames);
}

void fork_without_a_join(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUstream side = m.stream("side");
  const CUdeviceptr image = m.memory("image");
  const CUevent begun = m.event();
  const CUevent cleared = m.event();
  capture(frames, [&] {
    TRY(cuEventRecord, begun, frames);
    TRY(cuStreamWaitEvent, side, begun, 0);
    TRY(cuMemsetD8Async, image, 0, kBytes, side);
    TRY(cuEventRecord, cleared, side);
    if (!m.planted) TRY(cuStreamWaitEvent, frames, cleared, 0);
  });
}

void legacy_stream_in_a_capture(Machine& m) {
  const CUstream frames = m.stream("frames", CU_STREAM_DEFAULT);
  const CUdeviceptr image = m.memory("image");
  capture(frames, [&] { TRY(cuMemsetD8Async, image, 0, kBytes, m.planted ? nullptr : frames); });
}

void capture_ended_by_another_thread(Machine& m) {
  const CUstream frames = m.stream("frames");
  CUgraph graph = nullptr;
  CUresult ended = CUDA_SUCCESS;
  const auto end = [&] {
    CU(cuCtxSetCurrent)(m.context);
    ended = CU(cuStreamEndCapture)(frames, &graph);
  };
  TRY(cuStreamBeginCapture, frames, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (m.planted)
    std::thread(end).join();
  else
    end();
  check("cuStreamEndCapture", ended);
  TRY(cuGraphDestroy, graph);
}

void graph_launched_after_its_end(Machine& m) {
  const CUstream frames = m.stream("frames");
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  TRY(cuGraphCreate, &graph, 0);
  TRY(cuGraphInstantiateWithFlags, &executable, graph, 0);
  TRY(cuGraphDestroy, graph);
  if (m.planted) TRY(cuGraphExecDestroy, executable);
  TRY(cuGraphLaunch, executable, frames);
  TRY(cuStreamSynchronize, frames);
  TRY(cuGraphExecDestroy, executable);
}

void branches_of_a_graph(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUstream side = m.stream("side");
  const CUdeviceptr image = m.memory("image");
  const CUdeviceptr copy = m.memory("copy");
  const CUevent begun = m.event();
  const CUevent copied = m.event();
  const CUgraphExec frame = m.captured(frames, [&] {
    if (!m.planted) TRY(cuMemsetD8Async, image, 0, kBytes, frames);
    TRY(cuEventRecord, begun, frames);
    if (m.planted) TRY(cuMemsetD8Async, image, 0, kBytes, frames);
    TRY(cuStreamWaitEvent, side, begun, 0);
    TRY(cuMemcpyAsync, copy, image, kBytes, side);
    TRY(cuEventRecord, copied, side);
    TRY(cuStreamWaitEvent, frames, copied, 0);
  });
  m.name(frame, "frame");
  TRY(cuGraphLaunch, frame, frames);
  TRY(cuStreamSynchronize, frames);
}

// A graph is after its own earlier launch, but not after another one.
void two_graphs_without_an_order(Machine& m) {
  const CUstream first = m.stream("first");
  const CUstream second = m.stream("second");
  const CUdeviceptr image = m.memory("image");
  const CUdeviceptr copy = m.memory("copy");
  const CUevent drawn = m.event();
  const CUgraphExec draw =
      m.captured(first, [&] { TRY(cuMemsetD8Async, image, 1, kBytes, first); });
  const CUgraphExec take =
      m.captured(second, [&] { TRY(cuMemcpyAsync, copy, image, kBytes, second); });
  m.name(draw, "draw");
  m.name(take, "take");
  TRY(cuGraphLaunch, draw, first);
  TRY(cuEventRecord, drawn, first);
  if (!m.planted) TRY(cuStreamWaitEvent, second, drawn, 0);
  TRY(cuGraphLaunch, take, second);
  TRY(cuCtxSynchronize);
}

void input_of_a_graph_changed_too_early(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUstream uploads = m.stream("uploads");
  const CUdeviceptr staging = m.pinned("staging");
  const CUdeviceptr input = m.memory("input");
  const CUevent done = m.event();
  const CUgraphExec step = m.captured(frames, [&] { m.launch_reading(frames, input); });
  m.name(step, "step");
  TRY(cuGraphLaunch, step, CU_STREAM_LEGACY);
  TRY(cuEventRecord, done, CU_STREAM_LEGACY);
  if (!m.planted) TRY(cuStreamWaitEvent, uploads, done, 0);
  TRY(cuMemcpyAsync, input, staging, kBytes, uploads);
  TRY(cuCtxSynchronize);
}

constexpr Misuse kGraphMisuses[] = {
    {"memory is allocated while a stream is being captured", allocation_in_a_capture,
     "cuMemAlloc: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {"the host waits for a stream that is being captured", wait_in_a_capture,
     "cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {"an event that was recorded in a capture is queried", event_of_a_capture_is_asked,
     "cuEventQuery: CUDA_ERROR_CAPTURED_EVENT"},
    {"a captured stream waits for work outside of the capture", capture_waits_for_work_outside,
     "cuStreamWaitEvent: CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {"a stream that joined a capture is not joined back", fork_without_a_join,
     "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {"the legacy stream is used while a blocking stream is being captured",
     legacy_stream_in_a_capture, "cuMemsetD8Async: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {"a capture is ended by another thread", capture_ended_by_another_thread,
     "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {"an executable graph is launched after its end", graph_launched_after_its_end,
     "cuGraphLaunch: CUDA_ERROR_INVALID_VALUE"},
    {"two branches of a graph use the same bytes", branches_of_a_graph,
     "race: the copy of cuMemcpyAsync reads image, while the fill of cuMemsetD8Async writes image; "
     "both are in graph frame, launched by cuGraphLaunch on stream frames"},
    {"two graphs are launched without an order", two_graphs_without_an_order,
     "race: the fill of cuMemsetD8Async in graph draw, launched by cuGraphLaunch, on stream first "
     "writes image, while the copy of cuMemcpyAsync in graph take, launched by cuGraphLaunch, on "
     "stream second reads image"},
    {"the input of a launched graph is overwritten", input_of_a_graph_changed_too_early,
     "race: cuMemcpyAsync on stream uploads writes input, while a kernel in graph step, launched "
     "by cuGraphLaunch, on the legacy stream reads input"},
};

}  // namespace

std::span<const Misuse> graph_misuses() {
  return kGraphMisuses;
}

}  // namespace berth::test
