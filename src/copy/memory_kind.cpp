// SPDX-License-Identifier: Apache-2.0
#include "copy/memory_kind.hpp"

#include <fmt/format.h>

namespace berth {

MemoryKind find_memory_kind(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                            const Driver& driver, const void* data) {
  if (void* block = pinned.find_block(data)) {
    return {MemoryKind::Type::pinned, nullptr, block};
  }
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  CUmemorytype type{};
  const CUresult known =
      driver.try_pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (known == CUDA_ERROR_INVALID_VALUE) return {};  // CUDA has never heard of it: pageable
  if (known != CUDA_SUCCESS) driver.raise(DriverCall::pointer_get_attribute, known);
  if (type == CU_MEMORYTYPE_HOST) return {MemoryKind::Type::pinned, nullptr, nullptr};

  int native = 0;
  driver.pointer_get_attribute(&native, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal) {
    DeviceContext& context = registry.context(Device::cuda(ordinal));
    if (context.native() == native) return {MemoryKind::Type::device, &context, nullptr};
  }
  throw InvalidArgument(fmt::format("{} is memory of a device that is not visible here", data));
}

MemoryPlace find_memory_place(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                              const Driver& driver, const void* data) {
  const MemoryKind kind = find_memory_kind(registry, pinned, driver, data);
  if (kind.type == MemoryKind::Type::pageable) return {};
  if (kind.pinned_block != nullptr) {
    const auto begin = reinterpret_cast<std::uintptr_t>(kind.pinned_block);
    return {kind, begin, begin};
  }
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  driver.pointer_get_attribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  driver.pointer_get_attribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
  return {kind, begin, begin + bytes};
}

}  // namespace berth
