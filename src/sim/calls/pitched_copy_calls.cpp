// SPDX-License-Identifier: Apache-2.0
// Pitched copies between linear memory.
// Source: CUDA Driver API, cuMemcpy2D, cuMemcpy3D.
#include "sim/work/volumes.hpp"

namespace berth::sim {
namespace {

/// Of several stretches, none is copied if one is refused.
CUresult look_up_all(Call& call, CUstream stream, const Stretches& read) {
  const Stream* const found = call.find_stream(stream);
  if (found == nullptr || read.copies.size() < 2) return CUDA_SUCCESS;
  const Context& context = *call.state().contexts.find(found->context);
  for (const CopyWork& work : read.copies) {
    KnownCopy known;
    const CUresult accepted = look_up(call.state(), context, work, read.sides, known);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  return CUDA_SUCCESS;
}

template <class Parameters>
CUresult copy_rows_now(Function function, const Parameters* copy) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS) result = look_up_all(call, nullptr, read);
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_now(call, work, read.sides);
  return result;
}

template <class Parameters>
CUresult copy_rows_async(Function function, const Parameters* copy, CUstream stream) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS && read.copies.empty())
    return copy_async(call, stream, CopyWork{}, read.sides);
  if (result == CUDA_SUCCESS) result = look_up_all(call, stream, read);
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_async(call, stream, work, read.sides);
  return result;
}

}  // namespace

CUresult berth_sim_cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2D, copy);
}

CUresult berth_sim_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2DUnaligned, copy);
}

CUresult berth_sim_cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_rows_async(Function::k_cuMemcpy2DAsync, copy, stream);
}

CUresult berth_sim_cuMemcpy3D(const CUDA_MEMCPY3D* copy) {
  return copy_rows_now(Function::k_cuMemcpy3D, copy);
}

CUresult berth_sim_cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_rows_async(Function::k_cuMemcpy3DAsync, copy, stream);
}

}  // namespace berth::sim
