// SPDX-License-Identifier: Apache-2.0
// NVTX loads the library that NVTX_INJECTION64_PATH names, and calls these functions of it when the
// program first uses NVTX or one of its extensions. The simulator attaches to the memory extension
// alone; ranges, marks, permissions and whatever a later version adds stay without effect.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/nvtx/abi.hpp"
#include "sim/with_installed.hpp"

namespace berth::sim {
namespace {

using nvtx::Handle;

/// Whether a program has passed a structure with all fields of `Fields`.
template <class Fields>
bool has_all_fields(const Fields* fields) {
  return fields != nullptr && fields->struct_bytes >= sizeof *fields;
}

/// Calls visit(const Element&) for each of `count` elements.
template <class Element, class Visit>
void for_each_element(const void* elements, std::size_t count, std::size_t stride,
                      const Visit& visit) {
  if (elements == nullptr || stride < sizeof(Element)) return;
  const auto* at = static_cast<const std::byte*>(elements);
  for (std::size_t i = 0; i < count; ++i, at += stride)
    visit(*reinterpret_cast<const Element*>(at));
}

void append_utf8(std::string& text, char32_t point) {
  const auto append = [&](char32_t bits) { text += static_cast<char>(bits); };
  const auto append_rest = [&](int shift) { append(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) return append(point);
  if (point < 0x800) {
    append(0xc0 | point >> 6);
    return append_rest(0);
  }
  if (point < 0x10000) {
    append(0xe0 | point >> 12);
  } else {
    append(0xf0 | point >> 18);
    append_rest(12);
  }
  append_rest(6);
  append_rest(0);
}

/// Empty if it is of another type: a registered string is known only to the tool that NVTX itself
/// is attached to.
std::string text_of(std::uint32_t type, const void* value) {
  std::string text;
  if (value == nullptr) return text;
  if (type == nvtx::kAscii) text = static_cast<const char*>(value);
  if (type == nvtx::kUnicode) {
    for (const wchar_t point : std::wstring_view(static_cast<const wchar_t*>(value)))
      append_utf8(text, static_cast<char32_t>(point));
  }
  return text;
}

Handle register_heap(void*, const nvtx::HeapDescription* heap) {
  Handle handle = 0;
  if (!has_all_fields(heap) || heap->range == nullptr || heap->type != nvtx::kVirtualAddress ||
      heap->range_bytes < sizeof *heap->range)
    return handle;
  with_installed([&](State& state) {
    handle = state.memory_regions.add_heap(heap->range->start, heap->range->bytes,
                                           text_of(heap->text_type, heap->text));
  });
  return handle;
}

void unregister_heap(void*, Handle heap) {
  with_installed([&](State& state) { state.memory_regions.remove_heap(heap); });
}

void reset_heap(void*, Handle heap) {
  with_installed([&](State& state) { state.memory_regions.reset_heap(heap); });
}

void register_regions(void*, const nvtx::RegisteredRegions* batch) {
  if (!has_all_fields(batch) || batch->type != nvtx::kVirtualAddress) return;
  with_installed([&](State& state) {
    std::size_t index = 0;
    for_each_element<nvtx::VirtualRange>(
        batch->ranges, batch->count, batch->stride, [&](const nvtx::VirtualRange& range) {
          state.memory_regions.add(batch->heap, range.start, range.bytes);
          if (batch->handles != nullptr) batch->handles[index] = range.start;
          ++index;
        });
  });
}

void resize_regions(void*, const nvtx::ResizedRegions* batch) {
  if (!has_all_fields(batch) || batch->type != nvtx::kVirtualAddress) return;
  with_installed([&](State& state) {
    for_each_element<nvtx::VirtualRange>(batch->ranges, batch->count, batch->stride,
                                         [&](const nvtx::VirtualRange& range) {
                                           state.memory_regions.resize(range.start, range.bytes);
                                         });
  });
}

void unregister_regions(void*, const nvtx::UnregisteredRegions* batch) {
  if (!has_all_fields(batch)) return;
  with_installed([&](State& state) {
    for_each_element<Handle>(batch->references, batch->count, batch->stride,
                             [&](Handle start) { state.memory_regions.remove(start); });
  });
}

/// Source: NVTX API for Compute Sanitizer, "Naming": a name is that of a registered region, or of a
/// whole allocation.
void name_regions(void*, const nvtx::NamedRegions* batch) {
  if (!has_all_fields(batch)) return;
  with_installed([&](State& state) {
    for_each_element<nvtx::NamedRegion>(
        batch->regions, batch->count, batch->stride, [&](const nvtx::NamedRegion& named) {
          std::optional<std::size_t> bytes = state.memory_regions.find(named.region);
          if (const Range* range = state.addresses.find_start(named.region); !bytes && range)
            bytes = range->bytes;
          if (bytes)
            state.memory_names.set(named.region, *bytes, text_of(named.text_type, named.text));
        });
  });
}

}  // namespace

extern "C" {

/// Of NVTX itself. Attached, so that NVTX keeps the library loaded, without any function.
BERTH_API int InitializeInjectionNvtx2(void*) {
  return 1;
}

BERTH_API int InitializeInjectionNvtxExtension(nvtx::ModuleInfo* module) {
  if (module == nullptr || module->module_id != nvtx::kMemoryModule ||
      module->compatibility != nvtx::kMemoryCompatibility || module->segment_count == 0)
    return 0;
  const nvtx::ModuleSegment& segment = module->segments[0];
  const auto attach = [&](nvtx::MemoryFunction number, auto* function) {
    if (number < segment.slot_count)
      segment.slots[number] = reinterpret_cast<std::intptr_t>(function);
  };
  attach(nvtx::kHeapRegister, &register_heap);
  attach(nvtx::kHeapUnregister, &unregister_heap);
  attach(nvtx::kHeapReset, &reset_heap);
  attach(nvtx::kRegionsRegister, &register_regions);
  attach(nvtx::kRegionsResize, &resize_regions);
  attach(nvtx::kRegionsUnregister, &unregister_regions);
  attach(nvtx::kRegionsName, &name_regions);
  return 1;
}
}

}  // namespace berth::sim
