// SPDX-License-Identifier: Apache-2.0
// Fills.
// Source: CUDA Driver API, "Memory Management"; "API synchronization behavior", "Memset".
#include <cstdint>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/fills.hpp"

namespace berth::sim {
namespace {

template <class Value>
Fill line(CUdeviceptr destination, Value value, std::size_t count) {
  return {destination, 0, value, sizeof(Value), count, 1};
}

template <class Value>
Fill rectangle(CUdeviceptr destination, std::size_t pitch, Value value, std::size_t columns,
               std::size_t rows) {
  return {destination, pitch, value, sizeof(Value), columns, rows};
}

CUresult fill_async(Function function, const Fill& fill, CUstream stream) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (fill.columns == 0 || fill.rows == 0) return CUDA_SUCCESS;
  const Context& context = *call.state().contexts.find(found->context);
  KnownFill known{};
  const CUresult accepted = look_up(call.state(), context, fill, known);
  if (accepted != CUDA_SUCCESS) return accepted;
  return call.enqueue(*found, known.work);
}

/// Fills on the null stream. The host waits if the target is host memory, if the context has
/// CU_CTX_SYNC_MEMOPS, or if the memory has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
CUresult fill_now(Function function, const Fill& fill) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (fill.columns == 0 || fill.rows == 0) return CUDA_SUCCESS;
  State& state = call.state();
  Stream* stream = call.find_stream(nullptr);
  const CUresult full = call.make_room(stream);
  if (full != CUDA_SUCCESS) return full;
  KnownFill known{};
  const CUresult accepted = look_up(state, *state.contexts.find(stream->context), fill, known);
  if (accepted != CUDA_SUCCESS) return accepted;
  const CUresult refusal = refuse_observation(state, *stream);
  if (refusal != CUDA_SUCCESS) return refusal;
  const bool waits = known.on_host ||
                     (state.contexts.find(stream->context)->flags & CU_CTX_SYNC_MEMOPS) != 0 ||
                     is_synchronous(state.addresses.find(known.work.destination));
  const Handle context = stream->context;
  const Ticket ticket = state.scheduler.submit(*stream, known.work);
  return waits ? call.wait({{ticket}, stream->order.clock}, context) : call.end_submission(*stream);
}

}  // namespace

CUresult berth_sim_cuMemsetD8(CUdeviceptr destination, unsigned char value, std::size_t count) {
  return fill_now(Function::k_cuMemsetD8, line(destination, value, count));
}
CUresult berth_sim_cuMemsetD16(CUdeviceptr destination, unsigned short value, std::size_t count) {
  return fill_now(Function::k_cuMemsetD16, line(destination, value, count));
}
CUresult berth_sim_cuMemsetD32(CUdeviceptr destination, unsigned value, std::size_t count) {
  return fill_now(Function::k_cuMemsetD32, line(destination, value, count));
}

CUresult berth_sim_cuMemsetD8Async(CUdeviceptr destination, unsigned char value, std::size_t count,
                                   CUstream stream) {
  return fill_async(Function::k_cuMemsetD8Async, line(destination, value, count), stream);
}
CUresult berth_sim_cuMemsetD16Async(CUdeviceptr destination, unsigned short value,
                                    std::size_t count, CUstream stream) {
  return fill_async(Function::k_cuMemsetD16Async, line(destination, value, count), stream);
}
CUresult berth_sim_cuMemsetD32Async(CUdeviceptr destination, unsigned value, std::size_t count,
                                    CUstream stream) {
  return fill_async(Function::k_cuMemsetD32Async, line(destination, value, count), stream);
}

CUresult berth_sim_cuMemsetD2D8(CUdeviceptr destination, std::size_t pitch, unsigned char value,
                                std::size_t columns, std::size_t rows) {
  return fill_now(Function::k_cuMemsetD2D8, rectangle(destination, pitch, value, columns, rows));
}
CUresult berth_sim_cuMemsetD2D16(CUdeviceptr destination, std::size_t pitch, unsigned short value,
                                 std::size_t columns, std::size_t rows) {
  return fill_now(Function::k_cuMemsetD2D16, rectangle(destination, pitch, value, columns, rows));
}
CUresult berth_sim_cuMemsetD2D32(CUdeviceptr destination, std::size_t pitch, unsigned value,
                                 std::size_t columns, std::size_t rows) {
  return fill_now(Function::k_cuMemsetD2D32, rectangle(destination, pitch, value, columns, rows));
}

CUresult berth_sim_cuMemsetD2D8Async(CUdeviceptr destination, std::size_t pitch,
                                     unsigned char value, std::size_t columns, std::size_t rows,
                                     CUstream stream) {
  return fill_async(Function::k_cuMemsetD2D8Async,
                    rectangle(destination, pitch, value, columns, rows), stream);
}
CUresult berth_sim_cuMemsetD2D16Async(CUdeviceptr destination, std::size_t pitch,
                                      unsigned short value, std::size_t columns, std::size_t rows,
                                      CUstream stream) {
  return fill_async(Function::k_cuMemsetD2D16Async,
                    rectangle(destination, pitch, value, columns, rows), stream);
}
CUresult berth_sim_cuMemsetD2D32Async(CUdeviceptr destination, std::size_t pitch, unsigned value,
                                      std::size_t columns, std::size_t rows, CUstream stream) {
  return fill_async(Function::k_cuMemsetD2D32Async,
                    rectangle(destination, pitch, value, columns, rows), stream);
}

}  // namespace berth::sim
