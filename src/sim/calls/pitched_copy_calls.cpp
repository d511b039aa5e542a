// SPDX-License-Identifier: Apache-2.0
// Pitched copies between linear memory; arrays are not simulated.
// Source: CUDA Driver API, cuMemcpy2D.
#include <cstdint>
#include <optional>

#include "sim/work/copies.hpp"
#include "sim/work/pitch.hpp"

namespace berth::sim {
namespace {

/// One side of a CUDA_MEMCPY2D.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x;
  std::size_t y;
  std::size_t pitch;
};

End source_of(const CUDA_MEMCPY2D& copy) {
  return {copy.srcMemoryType, copy.srcHost, copy.srcDevice,
          copy.srcXInBytes,   copy.srcY,    copy.srcPitch};
}

End destination_of(const CUDA_MEMCPY2D& copy) {
  return {copy.dstMemoryType, copy.dstHost, copy.dstDevice,
          copy.dstXInBytes,   copy.dstY,    copy.dstPitch};
}

/// The kind of memory that `type` accepts, in `side`.
CUresult read_type(CUmemorytype type, Side& side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      side = Side::host;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      side = Side::device;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      side = Side::any;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/// The address of the first row of a side; nullopt if its pitch is invalid. Pitch 0 means unset,
/// which is valid for one row at the top.
std::optional<std::uint64_t> start_of(const End& end, std::size_t width, std::size_t rows) {
  const bool needs_pitch = rows != 1 || end.y != 0;
  const auto row_end = multiply_add(1, end.x, width);
  if (!row_end || end.pitch > kPitchMax) return std::nullopt;
  if ((needs_pitch || end.pitch != 0) && end.pitch < *row_end) return std::nullopt;
  if (!is_pitched(width, rows, end.pitch)) return std::nullopt;
  const std::uint64_t base = end.type == CU_MEMORYTYPE_HOST ? to_handle(end.host) : end.device;
  const auto row = multiply_add(end.y, end.pitch, base);
  return row ? multiply_add(1, *row, end.x) : std::nullopt;
}

/// Reads `copy`; an empty copy has no rows.
CUresult read_copy(const CUDA_MEMCPY2D* copy, CopyWork& work, Sides& sides) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const End to = destination_of(*copy);
  const End from = source_of(*copy);
  for (const auto& [type, side] : {std::pair{to.type, &sides.to}, {from.type, &sides.from}}) {
    const CUresult known = read_type(type, *side);
    if (known != CUDA_SUCCESS) return known;
  }
  if (copy->WidthInBytes == 0 || copy->Height == 0) return CUDA_SUCCESS;
  const auto destination = start_of(to, copy->WidthInBytes, copy->Height);
  const auto source = start_of(from, copy->WidthInBytes, copy->Height);
  if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
  work = {.destination = *destination,
          .source = *source,
          .width = copy->WidthInBytes,
          .rows = copy->Height,
          .destination_pitch = to.pitch,
          .source_pitch = from.pitch};
  return CUDA_SUCCESS;
}

CUresult copy_rows_now(Function function, const CUDA_MEMCPY2D* copy) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  CopyWork work{};
  Sides sides;
  const CUresult accepted = read_copy(copy, work, sides);
  return accepted == CUDA_SUCCESS ? copy_now(call, work, sides) : accepted;
}

}  // namespace

CUresult berth_sim_cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2D, copy);
}

CUresult berth_sim_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2DUnaligned, copy);
}

CUresult berth_sim_cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  Call call(Function::k_cuMemcpy2DAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  CopyWork work{};
  Sides sides;
  const CUresult accepted = read_copy(copy, work, sides);
  return accepted == CUDA_SUCCESS ? copy_async(call, stream, work, sides) : accepted;
}

}  // namespace berth::sim
