// SPDX-License-Identifier: Apache-2.0
#include "copy/side/memory_kind.hpp"

#include <array>

#include <fmt/format.h>

namespace berth {
namespace {

using Type = MemoryKind::Type;

/// What the driver knows of an address. All zero where it knows nothing.
/// Source: CUDA Driver API, cuPointerGetAttributes.
struct Attributes {
  CUmemorytype type{};
  int is_managed = 0;
  int native_device = 0;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
};

Attributes ask(const Driver& driver, const void* data) {
  Attributes answer;
  std::array names{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, names.size()> places{&answer.type, &answer.is_managed, &answer.native_device,
                                         &answer.begin, &answer.bytes};
  driver.pointer_get_attributes(static_cast<unsigned>(names.size()), names.data(), places.data(),
                                reinterpret_cast<CUdeviceptr>(data));
  return answer;
}

DeviceContext& device_of(const DeviceRegistry& registry, const Attributes& known,
                         const void* data) {
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal) {
    DeviceContext& context = registry.context(Device::cuda(ordinal));
    if (context.native() == known.native_device) return context;
  }
  throw InvalidArgument(fmt::format("{} is memory of a device that is not visible here", data));
}

/// Pinned memory of others, or what is free of berth's: that may be somebody else's at any moment.
Type foreign_pinned(const PinnedAllocator& pinned, const void* data) {
  if (!pinned.owns(data)) return Type::pinned;
  throw InvalidArgument(
      fmt::format("{} lies in pinned memory that is free; accepted: memory of a live block", data));
}

}  // namespace

std::optional<MemoryPlace> find_pinned_place(const PinnedAllocator& pinned, const void* data) {
  void* const block = pinned.find_block(data);
  if (block == nullptr) return std::nullopt;
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  return MemoryPlace{{Type::pinned, nullptr, block}, begin, begin};
}

MemoryPlace find_memory_place(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                              const Driver& driver, const void* data) {
  if (const auto place = find_pinned_place(pinned, data)) return *place;
  const Attributes known = ask(driver, data);
  MemoryPlace place{.kind = {}, .begin = known.begin, .end = known.begin + known.bytes};
  // First: managed memory may be said to be the host's or a device's.
  if (known.is_managed != 0)
    place.kind.type = Type::managed;
  else if (known.type == CU_MEMORYTYPE_HOST)
    place.kind.type = foreign_pinned(pinned, data);
  else if (known.type == CU_MEMORYTYPE_DEVICE)
    place.kind = {Type::device, &device_of(registry, known, data), nullptr};
  else
    return {};
  return place;
}

}  // namespace berth
