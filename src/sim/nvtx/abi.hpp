// SPDX-License-Identifier: Apache-2.0
// The part of NVTX's ABI by which a program names memory: how a tool attaches to the memory
// extension, and the structures that its functions get. Source: NVTX C API Reference v3, "Memory",
// and the headers of the memory extension, compatibility 0x0102.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::nvtx {

/// Function slots of an extension; the tool enters the addresses of its functions.
struct ModuleSegment {
  std::size_t id;
  std::size_t slot_count;
  std::intptr_t* slots;
};
/// Describes an extension that asks for a tool.
struct ModuleInfo {
  std::uint16_t version;
  std::uint16_t struct_bytes;
  std::uint16_t module_id;
  std::uint16_t compatibility;
  std::size_t segment_count;
  ModuleSegment* segments;
  void* get_export_function;
  const void* extension_info;
};

inline constexpr std::uint16_t kMemoryModule = 1;
inline constexpr std::uint16_t kMemoryCompatibility = 0x0102;

/// The slots of the memory extension.
enum MemoryFunction : std::size_t {
  kHeapRegister = 0,
  kHeapUnregister = 1,
  kHeapReset = 2,
  kRegionsRegister = 3,
  kRegionsResize = 4,
  kRegionsUnregister = 5,
  kRegionsName = 6,
};

inline constexpr std::uint32_t kVirtualAddress = 1;  ///< NVTX_MEM_TYPE_VIRTUAL_ADDRESS

/// nvtxMessageType_t: const char* or const wchar_t*.
enum TextType : std::uint32_t { kAscii = 1, kUnicode = 2 };

/// A handle of a heap or a region; a region is also referred to by the pointer to its start.
using Handle = std::uintptr_t;

struct VirtualRange {
  std::size_t bytes;
  std::uintptr_t start;
};

struct HeapDescription {
  std::uint16_t compatibility;
  std::uint16_t struct_bytes;
  std::uint32_t reserved;
  std::uint32_t usage;
  std::uint32_t type;
  std::size_t range_bytes;    ///< the size of the structure behind `range`
  const VirtualRange* range;  ///< with kVirtualAddress
  std::uint32_t category;
  std::uint32_t text_type;
  const void* text;
};

/// nvtxMemRegionsRegisterBatch_v1.
struct RegisteredRegions {
  std::uint16_t compatibility;
  std::uint16_t struct_bytes;
  std::uint32_t type;
  Handle heap;
  std::size_t count;
  std::size_t stride;
  const void* ranges;  ///< VirtualRange, `stride` bytes apart
  Handle* handles;     ///< may be null
};

/// nvtxMemRegionsResizeBatch_v1.
struct ResizedRegions {
  std::uint16_t compatibility;
  std::uint16_t struct_bytes;
  std::uint32_t type;
  std::size_t count;
  std::size_t stride;
  const void* ranges;
};

/// nvtxMemRegionsUnregisterBatch_v1.
struct UnregisteredRegions {
  std::uint16_t compatibility;
  std::uint16_t struct_bytes;
  std::uint32_t reference_type;
  std::size_t count;
  std::size_t stride;
  const void* references;  ///< pointers or handles, `stride` bytes apart
};

/// nvtxMemRegionNameDesc_v1.
struct NamedRegion {
  std::uint32_t reference_type;
  std::uint32_t text_type;
  Handle region;
  const void* text;
  std::uint32_t category;
  std::uint32_t reserved;
};
/// nvtxMemRegionsNameBatch_v1.
struct NamedRegions {
  std::uint16_t compatibility;
  std::uint16_t struct_bytes;
  std::uint32_t reserved0;
  std::size_t count;
  std::size_t stride;
  const void* regions;  ///< NamedRegion, `stride` bytes apart
  std::size_t reserved1;
};

}  // namespace berth::nvtx
