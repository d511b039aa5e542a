// SPDX-License-Identifier: Apache-2.0
#include "sim/work/volumes.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "sim/work/pitch.hpp"

namespace berth::sim {
namespace {

constexpr std::size_t kSlicesMax = 65'536;

/// One side of a copy. Of a rectangle, `z` and `height` are 0.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x;
  std::size_t y;
  std::size_t pitch;
  std::size_t z = 0;
  std::size_t height = 0;
};

End source_of(const CUDA_MEMCPY2D& copy) {
  return {copy.srcMemoryType, copy.srcHost, copy.srcDevice,
          copy.srcXInBytes,   copy.srcY,    copy.srcPitch};
}

End destination_of(const CUDA_MEMCPY2D& copy) {
  return {copy.dstMemoryType, copy.dstHost, copy.dstDevice,
          copy.dstXInBytes,   copy.dstY,    copy.dstPitch};
}

End source_of(const CUDA_MEMCPY3D& copy) {
  return {copy.srcMemoryType, copy.srcHost,  copy.srcDevice, copy.srcXInBytes,
          copy.srcY,          copy.srcPitch, copy.srcZ,      copy.srcHeight};
}

End destination_of(const CUDA_MEMCPY3D& copy) {
  return {copy.dstMemoryType, copy.dstHost,  copy.dstDevice, copy.dstXInBytes,
          copy.dstY,          copy.dstPitch, copy.dstZ,      copy.dstHeight};
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

CUresult read_types(const End& to, const End& from, Sides& sides) {
  const CUresult known = read_type(to.type, sides.to);
  return known == CUDA_SUCCESS ? read_type(from.type, sides.from) : known;
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

/// Adds the copy of `rows` rows of `width` bytes.
bool add_rows(const End& to, const End& from, std::size_t width, std::size_t rows,
              std::vector<CopyWork>& copies) {
  const auto destination = start_of(to, width, rows);
  const auto source = start_of(from, width, rows);
  if (!destination || !source) return false;
  copies.push_back({.destination = *destination,
                    .source = *source,
                    .width = width,
                    .rows = rows,
                    .destination_pitch = to.pitch,
                    .source_pitch = from.pitch});
  return true;
}

/// Moves `end` to the top of slice `slice` of the part; its rows are then counted from the start
/// of the volume.
bool enter_slice(End& end, std::size_t slice) {
  const auto z = multiply_add(1, end.z, slice);
  const auto row = z ? multiply_add(*z, end.height, end.y) : std::nullopt;
  if (!row) return false;
  end.y = *row;
  return true;
}

/// The address, the pitch and the height of one side of a copy of `extent`, as CUDA_MEMCPY3D has
/// them. Lengths of 0 in `operand` mean packed.
CUresult read_operand(const CUmemcpy3DOperand& operand, const CUextent3D& extent,
                      CUdeviceptr& address, std::size_t& pitch, std::size_t& height) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto& pointer = operand.op.ptr;
  if (pointer.rowLength != 0 && pointer.rowLength < extent.width) return CUDA_ERROR_INVALID_VALUE;
  if (pointer.layerHeight != 0 && pointer.layerHeight < extent.height)
    return CUDA_ERROR_INVALID_VALUE;
  address = pointer.ptr;
  const bool is_one_row = extent.height == 1 && extent.depth == 1;  // which may be of any length
  if (!is_one_row) pitch = pointer.rowLength == 0 ? extent.width : pointer.rowLength;
  if (extent.depth != 1) height = pointer.layerHeight == 0 ? extent.height : pointer.layerHeight;
  return CUDA_SUCCESS;
}

/// Whether slices of `height` rows fit into those of the volume.
bool holds_slices(const End& end, std::size_t height, std::size_t depth) {
  const bool is_flat = depth == 1 && end.z == 0 && end.height == 0;
  return is_flat || (end.y <= end.height && height <= end.height - end.y);
}

}  // namespace

CUresult read_copy(const CUDA_MEMCPY2D* copy, Stretches& read) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const End to = destination_of(*copy);
  const End from = source_of(*copy);
  const CUresult known = read_types(to, from, read.sides);
  if (known != CUDA_SUCCESS || copy->WidthInBytes == 0 || copy->Height == 0) return known;
  return add_rows(to, from, copy->WidthInBytes, copy->Height, read.copies)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult read_copy(const CUDA_MEMCPY3D* copy, Stretches& read) {
  if (copy == nullptr || copy->srcLOD != 0 || copy->dstLOD != 0 || copy->reserved0 != nullptr ||
      copy->reserved1 != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const End to = destination_of(*copy);
  const End from = source_of(*copy);
  const CUresult known = read_types(to, from, read.sides);
  const std::size_t width = copy->WidthInBytes;
  const std::size_t height = copy->Height;
  const std::size_t depth = copy->Depth;
  if (known != CUDA_SUCCESS || width == 0 || height == 0 || depth == 0) return known;
  if (!holds_slices(to, height, depth) || !holds_slices(from, height, depth))
    return CUDA_ERROR_INVALID_VALUE;
  const bool is_one = depth == 1 || (to.height == height && from.height == height);
  const std::size_t stretches = is_one ? 1 : depth;
  const auto rows = is_one ? multiply_add(height, depth, 0) : height;
  if (!rows) return CUDA_ERROR_INVALID_VALUE;
  if (stretches > kSlicesMax) return CUDA_ERROR_NOT_SUPPORTED;
  for (std::size_t slice = 0; slice < stretches; ++slice) {
    End slice_to = to;
    End slice_from = from;
    if (!enter_slice(slice_to, slice) || !enter_slice(slice_from, slice) ||
        !add_rows(slice_to, slice_from, width, *rows, read.copies))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The same structure, with the contexts in the reserved places.
CUresult read_copy(const CUDA_MEMCPY3D_PEER* copy, Stretches& read) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto plain = std::bit_cast<CUDA_MEMCPY3D>(*copy);
  plain.reserved0 = plain.reserved1 = nullptr;
  return read_copy(&plain, read);
}

CUresult read_copy(const CUDA_MEMCPY3D_BATCH_OP& copy, Stretches& read) {
  const CUextent3D& extent = copy.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D plain{};
  plain.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  plain.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  plain.WidthInBytes = extent.width;
  plain.Height = extent.height;
  plain.Depth = extent.depth;
  CUresult known = read_operand(copy.src, extent, plain.srcDevice, plain.srcPitch, plain.srcHeight);
  if (known == CUDA_SUCCESS)
    known = read_operand(copy.dst, extent, plain.dstDevice, plain.dstPitch, plain.dstHeight);
  return known == CUDA_SUCCESS ? read_copy(&plain, read) : known;
}

}  // namespace berth::sim
