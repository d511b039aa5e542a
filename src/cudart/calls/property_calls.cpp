// SPDX-License-Identifier: Apache-2.0
// cudaGetDeviceProperties in its three layouts.
#include <cstddef>
#include <cstring>

#include "cudart/call.hpp"
#include "cudart/device_properties.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// 0 for an attribute that the driver does not support.
int attribute_of(const Driver& driver, int device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

#define BERTH_CUDART_FILL(member, attribute)                        \
  properties.member = static_cast<decltype(properties.member + 0)>( \
      attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_##attribute));

/// The members of every layout. `properties` may end after reservedSharedMemPerBlock.
template <class Properties>
CUresult fill_common(const Driver& driver, int device, Properties& properties) {
  CUresult result = driver.cuDeviceGetName(properties.name, sizeof properties.name, device);
  if (result != CUDA_SUCCESS) return result;
  CUuuid uuid{};
  result = driver.cuDeviceGetUuid(&uuid, device);
  if (result != CUDA_SUCCESS) return result;
  std::memcpy(&properties.uuid, &uuid, sizeof properties.uuid);
  result = driver.cuDeviceTotalMem(&properties.totalGlobalMem, device);
  if (result != CUDA_SUCCESS) return result;
  BERTH_CUDART_PROPERTIES(BERTH_CUDART_FILL)
  return CUDA_SUCCESS;
}

template <class Properties, class Fill>
cudaError_t get_properties(Properties* properties, std::size_t bytes, int device, Fill&& fill) {
  return call(Needs::driver, [&](const Driver& driver) {
    if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult accepted = check_device(driver, device);
    if (accepted != CUDA_SUCCESS) return accepted;
    std::memset(static_cast<void*>(properties), 0, bytes);
    const CUresult filled = fill_common(driver, device, *properties);
    if (filled == CUDA_SUCCESS) fill(driver, *properties);
    return filled;
  });
}

}  // namespace

cudaError_t berth_cudart_cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return get_properties(out, sizeof *out, device,
                        [&](const Driver& driver, cudaDeviceProp& properties) {
                          BERTH_CUDART_PROPERTIES_12(BERTH_CUDART_FILL)
                          BERTH_CUDART_PROPERTIES_13(BERTH_CUDART_FILL)
                        });
}

cudaError_t berth_cudart_12_cudaGetDeviceProperties_v2(older_abi::DeviceProperties* out,
                                                       int device) {
  return get_properties(out, sizeof *out, device,
                        [&](const Driver& driver, older_abi::DeviceProperties& properties) {
                          BERTH_CUDART_REMOVED_PROPERTIES(BERTH_CUDART_FILL)
                          BERTH_CUDART_PROPERTIES_12(BERTH_CUDART_FILL)
                        });
}

// The caller's memory has the layout of CUDA 11, which is shorter.
cudaError_t berth_cudart_12_cudaGetDeviceProperties(older_abi::DeviceProperties* out, int device) {
  return get_properties(out, offsetof(older_abi::DeviceProperties, hostRegisterSupported), device,
                        [&](const Driver& driver, older_abi::DeviceProperties& properties) {
                          BERTH_CUDART_REMOVED_PROPERTIES(BERTH_CUDART_FILL)
                        });
}

}  // namespace berth::cudart
