// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: nodes of copies and fills, generic nodes, attributes of streams, and batches
// of prefetches.
#pragma once

#include <bit>

#include "fuzz/batch_parameters.hpp"
#include "fuzz/copy_parameters.hpp"

namespace berth::fuzz {

/// A rectangle as a volume of one slice, or on device memory of a few.
struct Volume {
  [[nodiscard]] Read<CUDA_MEMCPY3D> draw(Turn& turn) const {
    const Read<CUDA_MEMCPY2D> flat = rectangle.draw(turn);
    const CUDA_MEMCPY2D& from = flat.content;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = from.srcMemoryType;
    copy.srcHost = from.srcHost;
    copy.srcDevice = from.srcDevice;
    copy.srcPitch = from.srcPitch;
    copy.srcXInBytes = from.srcXInBytes;
    copy.srcY = from.srcY;
    copy.dstMemoryType = from.dstMemoryType;
    copy.dstHost = from.dstHost;
    copy.dstDevice = from.dstDevice;
    copy.dstPitch = from.dstPitch;
    copy.dstXInBytes = from.dstXInBytes;
    copy.dstY = from.dstY;
    copy.WidthInBytes = from.WidthInBytes;
    copy.Height = from.Height;
    copy.Depth = 1;
    const std::uint8_t choice = turn.bytes.byte();
    if (!turn.room && choice % 4 == 0)
      copy.Depth = choice % 3 * (choice >= kHostile ? 1U << 20 : 1);
    if (choice % 2 == 0) copy.srcHeight = copy.dstHeight = choice % 16;
    return {copy, flat.is_null};
  }
};
inline constexpr Volume volume{};

/// The same, with contexts in the reserved places.
struct VolumeOfContexts {
  [[nodiscard]] Read<CUDA_MEMCPY3D_PEER> draw(Turn& turn) const {
    const Read<CUDA_MEMCPY3D> plain = volume.draw(turn);
    auto copy = std::bit_cast<CUDA_MEMCPY3D_PEER>(plain.content);
    copy.srcContext = Bits{draw_handle(turn, Kind::context)};
    copy.dstContext = Bits{draw_handle(turn, Kind::context)};
    return {copy, plain.is_null};
  }
};
inline constexpr VolumeOfContexts volume_of_contexts{};

/// The same, with attributes.
struct AttributedVolume {
  [[nodiscard]] Read<CUDA_MEMCPY3D_BATCH_OP> draw(Turn& turn) const {
    const Read<CUDA_MEMCPY3D> plain = volume.draw(turn);
    const CUDA_MEMCPY3D& from = plain.content;
    CUDA_MEMCPY3D_BATCH_OP copy{};
    copy.src = operand_of(from.srcMemoryType, from.srcDevice, from.srcPitch, from.srcHeight);
    copy.dst = operand_of(from.dstMemoryType, from.dstDevice, from.dstPitch, from.dstHeight);
    copy.extent = {from.WidthInBytes, from.Height, from.Depth};
    const CUmemcpyAttributes attributes = copy_attributes.draw(turn).elements[0];
    copy.srcAccessOrder = attributes.srcAccessOrder;
    copy.flags = attributes.flags;
    return {copy, plain.is_null};
  }

 private:
  static CUmemcpy3DOperand operand_of(CUmemorytype type, CUdeviceptr address, std::size_t pitch,
                                      std::size_t height) {
    CUmemcpy3DOperand operand{};
    operand.type =
        type == CU_MEMORYTYPE_ARRAY ? CU_MEMCPY_OPERAND_TYPE_ARRAY : CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = address;
    operand.op.ptr.rowLength = pitch;
    operand.op.ptr.layerHeight = height;
    return operand;
  }
};
inline constexpr AttributedVolume attributed_volume{};

struct FillNode {
  [[nodiscard]] Read<CUDA_MEMSET_NODE_PARAMS> draw(Turn& turn) const {
    const std::uint8_t choice = turn.bytes.byte();
    return {{.dst = address(Kind::memory).draw(turn).address,
             .pitch = choice % 2 * 512U,
             .value = choice,
             .elementSize = choice % 8 == 0 ? 3U : 1U << choice % 3,
             .width = turn.bytes.byte(),
             .height = choice % 4U},
            choice >= kNull};
  }
};
inline constexpr FillNode fill_node{};

struct KernelNode {
  [[nodiscard]] Read<CUDA_KERNEL_NODE_PARAMS> draw(Turn& turn) const {
    const std::uint8_t choice = turn.bytes.byte();
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = Bits{draw_handle(turn, Kind::function)};
    params.gridDimX = choice % 8U;
    params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 1 + choice % 3U * 512U;
    params.blockDimY = params.blockDimZ = 1;
    return {params, choice >= kNull};
  }
};
inline constexpr KernelNode kernel_node{};

/// Parameters of a node of any kind.
struct GenericNode {
  struct Drawn {
    CUgraphNodeParams params;
    bool is_null;
    [[nodiscard]] CUgraphNodeParams* value() { return is_null ? nullptr : &params; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    const std::uint8_t choice = turn.bytes.byte();
    Drawn drawn{{}, choice >= kNull};
    drawn.params.type = static_cast<CUgraphNodeType>(turn.bytes.byte() % 16);
    if (choice >= kHostile) drawn.params.reserved0[choice % 3] = choice % 2;
    switch (drawn.params.type) {
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        drawn.params.memcpy.copyCtx = Bits{draw_handle(turn, Kind::context)};
        drawn.params.memcpy.copyParams = volume.draw(turn).content;
        break;
      case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS fill = fill_node.draw(turn).content;
        drawn.params.memset = {fill.dst,   fill.pitch,  fill.value, fill.elementSize,
                               fill.width, fill.height, nullptr};
        break;
      }
      case CU_GRAPH_NODE_TYPE_HOST:
        drawn.params.host = {host_function.draw(turn).value(), nullptr};
        break;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        drawn.params.graph.graph = Bits{draw_handle(turn, Kind::graph)};
        break;
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        drawn.params.eventWait.event = Bits{draw_handle(turn, Kind::event)};
        break;
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        drawn.params.free.dptr = address(Kind::memory).draw(turn).address;
        break;
      default:
        break;
    }
    return drawn;
  }
};
inline constexpr GenericNode generic_node{};

/// The value of an attribute of a stream.
struct StreamAttribute {
  [[nodiscard]] Read<CUstreamAttrValue> draw(Turn& turn) const {
    CUstreamAttrValue value{};
    for (char& byte : value.pad) byte = static_cast<char>(turn.bytes.byte() % 4);
    return {value, turn.bytes.byte() >= kNull};
  }
};
inline constexpr StreamAttribute stream_attribute{};
inline constexpr Number stream_attribute_id = enumerator(3, 1, 8, 9, 10, 0, 2, 99);

struct IpcEvent {
  struct Drawn {
    CUipcEventHandle handle;
    [[nodiscard]] CUipcEventHandle value() const { return handle; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    Drawn drawn{};
    for (char& byte : drawn.handle.reserved) byte = static_cast<char>(turn.bytes.byte());
    return drawn;
  }
};
inline constexpr IpcEvent ipc_event{};

/// Where a batch of prefetches goes.
struct Locations {
  [[nodiscard]] ArrayIn<CUmemLocation> draw(Turn& turn) const {
    ArrayIn<CUmemLocation> drawn{{}, turn.bytes.byte() >= kNull};
    for (CUmemLocation& element : drawn.elements) element = location_value.draw(turn).location;
    return drawn;
  }
};
inline constexpr Locations locations{};

}  // namespace berth::fuzz
