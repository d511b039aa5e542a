// SPDX-License-Identifier: Apache-2.0
// Stream-ordered waits for values in memory, and writes of values.
// Source: CUDA Driver API, "Stream Memory Operations".
#include <span>
#include <utility>
#include <vector>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/value_operations.hpp"

namespace berth::sim {
namespace {

CUresult batch(Call& call, CUstream stream, unsigned count, const CUstreamBatchMemOpParams* params)
    BERTH_REQUIRES(mutex) {
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const Handle handle = found->handle;
  std::vector<Work> works;
  const std::span<const CUstreamBatchMemOpParams> operations(params, count);
  const Context& context = *call.state().contexts.find(found->context);
  const CUresult accepted = read_operations(call.state(), context, operations, works);
  if (accepted != CUDA_SUCCESS) return accepted;
  if (found->captured.capture != 0) {
    const CUresult refusal = refuse_use(call.state(), *found);
    if (refusal != CUDA_SUCCESS) return refusal;
    set_batch(capture_work(call.state(), *found, WaitWork{}), found->context, operations,
              std::move(works));
    return CUDA_SUCCESS;
  }
  for (Work& work : works) {
    // Each may wait for room in the stream's queue.
    found = call.state().streams.find(handle);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refusal = call.enqueue(*found, std::move(work));
    if (refusal != CUDA_SUCCESS) return refusal;
  }
  return CUDA_SUCCESS;
}

/// A batch of one operation. Wait and write parameters have the same layout.
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
  if (params == nullptr || count == 0 || count > kValueOperationsMax || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return batch(call, stream, count, params);
}

}  // namespace berth::sim
