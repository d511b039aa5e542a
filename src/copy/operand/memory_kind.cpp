// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/memory_kind.hpp"

#include <array>
#include <optional>
#include <string_view>

#include "base/format.hpp"
#include "pinned/pinned_owners.hpp"

namespace berth {
namespace {

using Type = MemoryKind::Type;

/// The driver's attributes of an address; all zero if the driver does not know the address.
/// Source: CUDA Driver API, cuPointerGetAttributes.
struct Attributes {
  CUmemorytype type{};
  int is_managed = 0;
  int native_device = 0;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
};

Attributes query_attributes(const Driver& driver, const void* data) {
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
  throw InvalidArgument(format_text("{} is memory of a device that is not visible here", data));
}

/// A block is an allocation of its own, although the driver knows only the segment that contains
/// it.
AllocationInfo allocation_of(const PinnedBlock& block, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block.data);
  return {{Type::pinned, nullptr, block}, begin, begin + bytes};
}

/// Memory pinned by another Runtime, or by the program itself. Free memory of a Runtime is
/// rejected, because another thread may allocate it at any time.
AllocationInfo pinned_by_others(const void* data, AllocationInfo place) {
  const std::optional<PinnedOwner> owner = find_pinned_owner(data);
  if (!owner) {
    place.kind.type = Type::pinned;
    return place;
  }
  if (owner->block != nullptr) return allocation_of({owner->block, owner->heaps}, owner->bytes);
  throw InvalidArgument(
      format_text("{} is in free pinned memory; accepted: memory of a live block", data));
}

/// Whether all of the range lies in one live block.
bool is_in_a_block(HostAllocator& host, const void* data, std::size_t bytes) {
  const std::optional<MemoryBlock> block = host.find(data);
  if (!block) return false;
  const auto before = static_cast<const std::byte*>(data) - static_cast<std::byte*>(block->data);
  return bytes <= block->bytes - static_cast<std::size_t>(before);
}

}  // namespace

bool is_known_to_driver(const Driver& driver, const void* data) {
  CUmemorytype type{};
  auto name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* place = &type;
  driver.pointer_get_attributes(1, &name, &place, reinterpret_cast<CUdeviceptr>(data));
  return type != CUmemorytype{};
}

bool is_pinned_by_runtime(const PinnedAllocator& own, const void* data) {
  return own.owns(data) || (has_several_pinned_owners() && find_pinned_owner(data));
}

std::optional<AllocationInfo> find_pinned_allocation(const PinnedAllocator& pinned,
                                                     const void* data) {
  const FoundBlock found = PinnedLookup::look_up(pinned, data);
  if (found.block == nullptr) return std::nullopt;
  return allocation_of({found.block, nullptr}, found.bytes);
}

void refuse_beyond(const AllocationInfo& place, const void* data, std::size_t bytes,
                   std::string_view name) {
  throw InvalidArgument(format_text(
      "{}, {} with {} B, runs past the end of the pinned block at {}, which has {} B; accepted: "
      "a range within one block",
      name, data, bytes, place.kind.pinned.data, place.end - place.begin));
}

AllocationInfo find_allocation(const DeviceRegistry& registry, const OwnHostMemory& own,
                               const Driver& driver, const void* data, std::size_t bytes) {
  if (const auto place = find_pinned_allocation(own.pinned, data)) return *place;
  // Another Runtime may have pinned a block of this one.
  if (is_in_a_block(own.host, data, bytes) && !is_pinned_by_runtime(own.pinned, data)) return {};
  const Attributes known = query_attributes(driver, data);
  AllocationInfo place{.kind = {}, .begin = known.begin, .end = known.begin + known.bytes};
  // Checked first, because the driver also reports managed memory as host or device memory.
  if (known.is_managed != 0)
    place.kind.type = Type::managed;
  else if (known.type == CU_MEMORYTYPE_HOST)
    return pinned_by_others(data, place);
  else if (known.type == CU_MEMORYTYPE_DEVICE)
    place.kind = {Type::device, &device_of(registry, known, data), {}};
  else
    return {};
  return place;
}

}  // namespace berth
