// SPDX-License-Identifier: Apache-2.0
#include "memory/source/lone_mapping.hpp"

#include "stream/wait.hpp"

namespace berth {

std::uintptr_t map_without_access(DeviceContext& context, CUmemGenericAllocationHandle handle,
                                  std::size_t bytes) {
  const Driver& driver = context.driver();
  const ContextScope scope(context);
  make_host_progress(context);
  CUdeviceptr address = 0;
  const CUresult reserved =
      driver.try_mem_address_reserve(&address, bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  if (!driver.succeeded(DriverCall::mem_address_reserve, reserved, CUDA_ERROR_OUT_OF_MEMORY))
    return 0;
  const CUresult mapped = driver.try_mem_map(address, bytes, std::size_t{0}, handle, 0ULL);
  if (mapped != CUDA_SUCCESS) driver.mem_address_free_or_report(address, bytes);
  return driver.succeeded(DriverCall::mem_map, mapped, CUDA_ERROR_OUT_OF_MEMORY)
             ? static_cast<std::uintptr_t>(address)
             : 0;
}

std::uintptr_t map_alone(DeviceContext& context, CUmemGenericAllocationHandle handle,
                         std::size_t bytes, std::span<const CUmemAccessDesc> access) {
  const Driver& driver = context.driver();
  const ContextScope scope(context);
  const std::uintptr_t address = map_without_access(context, handle, bytes);
  if (address == 0) return 0;
  const CUresult allowed =
      driver.try_mem_set_access(CUdeviceptr{address}, bytes, access.data(), access.size());
  if (allowed != CUDA_SUCCESS) unmap_alone(context, address, bytes);
  return driver.succeeded(DriverCall::mem_set_access, allowed, CUDA_ERROR_OUT_OF_MEMORY) ? address
                                                                                         : 0;
}

DriverRefusal unmap_alone(DeviceContext& context, std::uintptr_t address,
                          std::size_t bytes) noexcept {
  const Driver& driver = context.driver();
  const ContextScope scope(context, std::nothrow);
  make_host_progress(context);
  const DriverRefusal unmapped =
      driver.reported(DriverCall::mem_unmap, driver.try_mem_unmap(CUdeviceptr{address}, bytes));
  if (!unmapped) driver.mem_address_free_or_report(CUdeviceptr{address}, bytes);
  return unmapped;
}

Return unmap_and_release(const Driver& driver, CUmemGenericAllocationHandle handle,
                         std::uintptr_t address, std::size_t bytes,
                         std::span<const CUmemAccessDesc> access) noexcept {
  const CUdeviceptr start{address};
  const DriverRefusal unmapped =
      driver.reported(DriverCall::mem_unmap, driver.try_mem_unmap(start, bytes));
  if (unmapped) return {unmapped, Remains::memory};
  const Return released = release(driver, handle);
  if (!released.refusal) return released;
  if (driver.try_mem_map(start, bytes, std::size_t{0}, handle, 0ULL) != CUDA_SUCCESS)
    return released;
  const CUresult allowed = driver.try_mem_set_access(start, bytes, access.data(), access.size());
  return {released.refusal, allowed == CUDA_SUCCESS ? Remains::memory : Remains::mapping};
}

Return release(const Driver& driver, CUmemGenericAllocationHandle handle) noexcept {
  const DriverRefusal refusal =
      driver.reported(DriverCall::mem_release, driver.try_mem_release(handle));
  return {refusal, refusal ? Remains::handle : Remains::nothing};
}

}  // namespace berth
