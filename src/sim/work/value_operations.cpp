// SPDX-License-Identifier: Apache-2.0
#include "sim/work/value_operations.hpp"

#include "base/arithmetic.hpp"
#include "sim/state.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

CUresult check_target(State& state, const Context& context, CUdeviceptr address, unsigned bytes,
                      Access access) {
  if (!is_aligned(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const Span span = state.addresses.span(address, bytes);
  const bool ours = span.kind == Span::Kind::device || span.kind == Span::Kind::pinned;
  return ours && may_access(span, context, access) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_wait(State& state, const Context& context, CUdeviceptr address, unsigned bytes,
                    unsigned flags) {
  // The simulated device has no writes in flight that a flush would have to bring home.
  const unsigned condition = flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH};
  if (condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  return check_target(state, context, address, bytes, Access::read);
}

CUresult check_write(State& state, const Context& context, CUdeviceptr address, unsigned bytes,
                     unsigned flags) {
  if (flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return check_target(state, context, address, bytes, Access::write);
}

WaitValueWork wait_work(CUdeviceptr address, std::uint64_t value, unsigned bytes, unsigned flags) {
  return {address, value, bytes, flags & ~unsigned{CU_STREAM_WAIT_VALUE_FLUSH}};
}

/// Checks one operation of a batch, and adds its work where it is any.
CUresult read_operation(State& state, const Context& context,
                        const CUstreamBatchMemOpParams& params, std::vector<Work>& works) {
  const auto& wait = params.waitValue;
  const auto& write = params.writeValue;
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      works.emplace_back(wait_work(wait.address, wait.value, 4, wait.flags));
      return check_wait(state, context, wait.address, 4, wait.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      works.emplace_back(wait_work(wait.address, wait.value64, 8, wait.flags));
      return check_wait(state, context, wait.address, 8, wait.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      works.emplace_back(WriteValueWork{write.address, write.value, 4});
      return check_write(state, context, write.address, 4, write.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      works.emplace_back(WriteValueWork{write.address, write.value64, 8});
      return check_write(state, context, write.address, 8, write.flags);
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

}  // namespace

CUresult read_operations(State& state, const Context& context,
                         std::span<const CUstreamBatchMemOpParams> operations,
                         std::vector<Work>& works) {
  const DeviceFacts& device = state.devices[static_cast<std::size_t>(context.device)].facts;
  if (!state.config.memory_operations_of(device.physical())) return CUDA_ERROR_NOT_SUPPORTED;
  for (const CUstreamBatchMemOpParams& operation : operations) {
    const CUresult accepted = read_operation(state, context, operation, works);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
