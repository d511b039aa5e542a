// SPDX-License-Identifier: Apache-2.0
#include "pjrt/extensions.hpp"

#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/format.hpp"
#include "base/process_memory.hpp"

namespace berth::pjrt {
namespace {

/// A longer list is taken for one that never ends; libtpu has 18.
constexpr int kExtensionsMax = 256;

/// By their numbers, which never change. Those that are missing here are newer.
constexpr const char* kExtensionNames[] = {
    "Gpu_Custom_Call",
    "Profiler",
    "Custom_Partitioner",
    "Stream",
    "Layouts",
    "FFI",
    "MemoryDescriptions",
    "Triton",
    "RawBuffer",
    "PhaseCompile",
    "Example",
    "Unknown",
    "CrossHostTransfers",
    "ExecutableMetadata",
    "Callback",
    "HostAllocator",
    "TpuTopology",
    "TpuExecutable",
    "Megascale",
    "Shardings",
    "AbiVersion",
    "Collectives",
    "MultiSlice",
    "HostMemoryAllocator",
    "XlaTransform",
};

std::string name_of_extension(int type) {
  constexpr int kKnown = std::size(kExtensionNames);
  if (type >= 0 && type < kKnown) return kExtensionNames[type];
  return format_text("type_{}", type);
}

}  // namespace

ExtensionNames read_extensions(const Extension* first) {
  ExtensionNames read;
  int count = 0;
  for (const Extension* next = first; next != nullptr; ++count) {
    if (count == kExtensionsMax) {
      read.problem = format_text("more than {} extensions", kExtensionsMax);
      break;
    }
    if (!are_readable(next, sizeof *next)) {
      read.problem = format_text("extension {} is at {}, which is no memory", count,
                                 static_cast<const void*>(next));
      break;
    }
    Extension extension{};
    std::memcpy(&extension, next, sizeof extension);  // it may not be aligned
    if (extension.struct_size < sizeof extension) {
      read.problem = format_text("extension {} has a struct of {} B; accepted: at least {} B",
                                 count, extension.struct_size, sizeof extension);
      break;
    }
    if (!read.names.empty()) read.names += ' ';
    read.names += name_of_extension(extension.type);
    next = extension.next;
  }
  return read;
}

}  // namespace berth::pjrt
