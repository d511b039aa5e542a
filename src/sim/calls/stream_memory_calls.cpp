// SPDX-License-Identifier: Apache-2.0
// Waits for values of memory, and writes of them, in stream order.
// Source: CUDA Driver API, "Stream Memory Operations".
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "sim/call.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

constexpr unsigned kBatchMax = 255;

CUresult check_target(Call& call, const Stream& stream, CUdeviceptr address, unsigned bytes,
                      Access access) {
  if (!is_aligned(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const Span span = call.state().addresses.span(address, bytes);
  const bool ours = span.kind == Span::Kind::device || span.kind == Span::Kind::pinned;
  const Context& context = *call.state().contexts.find(stream.context);
  return ours && may_access(span, context, access) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_wait(Call& call, const Stream& stream, CUdeviceptr address, unsigned bytes,
                    unsigned flags) {
  // The simulated device has no writes in flight that a flush would have to bring home.
  const unsigned condition = flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH};
  if (condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  return check_target(call, stream, address, bytes, Access::read);
}

CUresult check_write(Call& call, const Stream& stream, CUdeviceptr address, unsigned bytes,
                     unsigned flags) {
  if (flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return check_target(call, stream, address, bytes, Access::write);
}

WaitValueWork wait_work(CUdeviceptr address, std::uint64_t value, unsigned bytes, unsigned flags) {
  return {address, value, bytes, flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH}};
}

/// Checks one operation of a batch, and adds its work where it is any.
CUresult read_operation(Call& call, const Stream& stream, const CUstreamBatchMemOpParams& params,
                        std::vector<Work>& works) {
  const auto& wait = params.waitValue;
  const auto& write = params.writeValue;
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      works.emplace_back(wait_work(wait.address, wait.value, 4, wait.flags));
      return check_wait(call, stream, wait.address, 4, wait.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      works.emplace_back(wait_work(wait.address, wait.value64, 8, wait.flags));
      return check_wait(call, stream, wait.address, 8, wait.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      works.emplace_back(WriteValueWork{write.address, write.value, 4});
      return check_write(call, stream, write.address, 4, write.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      works.emplace_back(WriteValueWork{write.address, write.value64, 8});
      return check_write(call, stream, write.address, 8, write.flags);
    // Operations of a stream run one after the other here, and each sees what came before it.
    case CU_STREAM_MEM_OP_BARRIER:
      return params.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return params.flushRemoteWrites.flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult batch(Call& call, CUstream stream, unsigned count, const CUstreamBatchMemOpParams* params)
    BERTH_REQUIRES(mutex) {
  if (!call.state().config.memory_operations) return CUDA_ERROR_NOT_SUPPORTED;
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const Handle handle = found->handle;
  std::vector<Work> works;
  for (unsigned i = 0; i < count; ++i) {
    const CUresult accepted = read_operation(call, *found, params[i], works);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  for (Work& work : works) {
    // Each may wait for room.
    found = call.state().streams.find(handle);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refusal = call.enqueue(*found, std::move(work));
    if (refusal != CUDA_SUCCESS) return refusal;
  }
  return CUDA_SUCCESS;
}

/// A batch of one. The parameters of waits and of writes are laid out alike.
CUresult call_one(Function function, CUstreamBatchMemOpType operation, CUstream stream,
                  CUdeviceptr address, std::uint64_t value, unsigned flags) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  CUstreamBatchMemOpParams params{};
  params.waitValue = {
      .operation = operation, .address = address, .value64 = value, .flags = flags, .alias = 0};
  return batch(call, stream, 1, &params);
}

}  // namespace

CUresult berth_sim_cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                       unsigned flags) {
  return call_one(Function::k_cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, stream, address,
                  value, flags);
}

CUresult berth_sim_cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                       unsigned flags) {
  return call_one(Function::k_cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, stream, address,
                  value, flags);
}

CUresult berth_sim_cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                        unsigned flags) {
  return call_one(Function::k_cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, stream,
                  address, value, flags);
}

CUresult berth_sim_cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags) {
  return call_one(Function::k_cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, stream,
                  address, value, flags);
}

CUresult berth_sim_cuStreamBatchMemOp(CUstream stream, unsigned count,
                                      CUstreamBatchMemOpParams* params, unsigned flags) {
  Call call(Function::k_cuStreamBatchMemOp, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr || count == 0 || count > kBatchMax || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return batch(call, stream, count, params);
}

}  // namespace berth::sim
