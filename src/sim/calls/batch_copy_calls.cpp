// SPDX-License-Identifier: Apache-2.0
// Copies with attributes, alone and in batches.
// Source: CUDA Driver API, cuMemcpyBatchAsync, cuMemcpyWithAttributesAsync.
#include <span>

#include "sim/work/attributed_copies.hpp"
#include "sim/work/volumes.hpp"

namespace berth::sim {
namespace {

CopyAttributes attributes_of(const CUmemcpyAttributes& attributes) {
  return {attributes.srcAccessOrder, attributes.flags};
}

CopyAttributes attributes_of(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  return {copy.srcAccessOrder, copy.flags};
}

/// Whether `firsts`, the index of the first copy of each of `attributes`, starts at 0, increases,
/// and stays below `copies`.
bool are_valid(std::span<const CUmemcpyAttributes> attributes, const std::size_t* firsts,
               std::size_t copies) {
  if (firsts[0] != 0) return false;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (!attributes_of(attributes[i]).are_valid() || firsts[i] >= copies) return false;
    if (i != 0 && firsts[i] <= firsts[i - 1]) return false;
  }
  return true;
}

/// Copies volumes of one call.
CUresult copy_volumes(Function function, std::size_t count, const CUDA_MEMCPY3D_BATCH_OP* volumes,
                      unsigned long long flags, CUstream stream) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (volumes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  AttributedCopies copies(call, stream);
  if (copies.status() != CUDA_SUCCESS) return copies.status();
  for (const CUDA_MEMCPY3D_BATCH_OP& volume : std::span(volumes, count)) {
    const CopyAttributes attributes = attributes_of(volume);
    Stretches read;
    CUresult result = attributes.are_valid() ? read_copy(volume, read) : CUDA_ERROR_INVALID_VALUE;
    for (const CopyWork& work : read.copies)
      if (result == CUDA_SUCCESS) result = copies.add(work, attributes);
    if (result != CUDA_SUCCESS) return result;
  }
  return copies.submit();
}

}  // namespace

CUresult berth_sim_cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources,
                                      std::size_t* sizes, std::size_t count,
                                      CUmemcpyAttributes* attributes, std::size_t* firsts,
                                      std::size_t attributes_count, CUstream stream) {
  Call call(Function::k_cuMemcpyBatchAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (attributes == nullptr || firsts == nullptr || attributes_count == 0 ||
      attributes_count > count || !are_valid({attributes, attributes_count}, firsts, count))
    return CUDA_ERROR_INVALID_VALUE;
  AttributedCopies copies(call, stream);
  if (copies.status() != CUDA_SUCCESS) return copies.status();
  std::size_t group = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (group + 1 < attributes_count && firsts[group + 1] <= i) ++group;
    const CUresult accepted =
        copies.add({destinations[i], sources[i], sizes[i]}, attributes_of(attributes[group]));
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  return copies.submit();
}

CUresult berth_sim_cuMemcpyWithAttributesAsync(CUdeviceptr destination, CUdeviceptr source,
                                               std::size_t bytes, CUmemcpyAttributes* attributes,
                                               CUstream stream) {
  Call call(Function::k_cuMemcpyWithAttributesAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (attributes == nullptr || !attributes_of(*attributes).are_valid())
    return CUDA_ERROR_INVALID_VALUE;
  AttributedCopies copies(call, stream);
  if (copies.status() != CUDA_SUCCESS) return copies.status();
  const CUresult accepted = copies.add({destination, source, bytes}, attributes_of(*attributes));
  return accepted == CUDA_SUCCESS ? copies.submit() : accepted;
}

CUresult berth_sim_cuMemcpy3DBatchAsync(std::size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                                        unsigned long long flags, CUstream stream) {
  return copy_volumes(Function::k_cuMemcpy3DBatchAsync, count, copies, flags, stream);
}

CUresult berth_sim_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* copy,
                                                 unsigned long long flags, CUstream stream) {
  return copy_volumes(Function::k_cuMemcpy3DWithAttributesAsync, 1, copy, flags, stream);
}

}  // namespace berth::sim
