// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Device Management", "Peer Device Memory Access"; of CUDA 12 also
// "Thread Management [DEPRECATED]".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// The runtime's device flags that are not in CUctx_flags.
constexpr unsigned kMapHost = cudaDeviceMapHost;

CUresult flags_of_primary(const Driver& driver, unsigned* flags) {
  int device = 0;
  const CUresult known = current_device(driver, device);
  if (known != CUDA_SUCCESS) return known;
  int is_active = 0;
  return driver.cuDevicePrimaryCtxGetState(device, flags, &is_active);
}

}  // namespace

cudaError_t berth_cudart_cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return forward(Needs::driver, &Driver::cuDeviceGetCount, count);
}

cudaError_t berth_cudart_cudaGetDevice(int* device) {
  return call(Needs::driver, [&](const Driver& driver) {
    return device == nullptr ? CUDA_ERROR_INVALID_VALUE : current_device(driver, *device);
  });
}

// Since CUDA 12 this initializes the device.
cudaError_t berth_cudart_cudaSetDevice(int device) {
  return call(Needs::driver, [&](const Driver& driver) { return set_device(driver, device); });
}

cudaError_t berth_cudart_cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  return call(Needs::driver, [&](const Driver& driver) {
    if (flags != 0 && flags != cudaInitDeviceFlagsAreValid) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_device(driver, device);
    if (result != CUDA_SUCCESS) return result;
    if (flags == cudaInitDeviceFlagsAreValid)
      result = driver.cuDevicePrimaryCtxSetFlags(device, device_flags & ~kMapHost);
    if (result != CUDA_SUCCESS) return result;
    CUcontext context = nullptr;
    return primary_context(driver, device, context);
  });
}

// A thread without a device tries those of the list in turn. None of them is ever refused, so the
// first one is used.
cudaError_t berth_cudart_cudaSetValidDevices(int* devices, int count) {
  return call(Needs::driver, [&](const Driver& driver) {
    if (devices == nullptr || count < 0) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < count; ++i) {
      const CUresult accepted = check_device(driver, devices[i]);
      if (accepted != CUDA_SUCCESS) return accepted;
    }
    Thread& thread = this_thread();
    if (thread.context == nullptr) thread.device = count == 0 ? 0 : devices[0];
    return CUDA_SUCCESS;
  });
}

// The members that are read here have the same offsets in every layout.
cudaError_t berth_cudart_cudaChooseDevice(int* chosen, const cudaDeviceProp* wanted) {
  return call(Needs::driver, [&](const Driver& driver) {
    if (chosen == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int count = 0;
    const CUresult counted = driver.cuDeviceGetCount(&count);
    *chosen = 0;
    for (int device = 0; device < count; ++device) {
      std::size_t bytes = 0;
      driver.cuDeviceTotalMem(&bytes, device);
      if (bytes < wanted->totalGlobalMem) continue;
      *chosen = device;
      break;
    }
    return counted;
  });
}

cudaError_t berth_cudart_cudaGetDeviceFlags(unsigned* flags) {
  return call(Needs::driver, [&](const Driver& driver) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = flags_of_primary(driver, flags);
    *flags |= kMapHost;
    return result;
  });
}

cudaError_t berth_cudart_cudaSetDeviceFlags(unsigned flags) {
  return call(Needs::driver, [&](const Driver& driver) {
    int device = 0;
    const CUresult known = current_device(driver, device);
    if (known != CUDA_SUCCESS) return known;
    return driver.cuDevicePrimaryCtxSetFlags(device, flags & ~kMapHost);
  });
}

cudaError_t berth_cudart_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return forward(Needs::driver, &Driver::cuDeviceGetAttribute, value,
                 static_cast<CUdevice_attribute>(attribute), device);
}

cudaError_t berth_cudart_cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return forward(Needs::driver, &Driver::cuDeviceGetPCIBusId, text, bytes, device);
}

cudaError_t berth_cudart_cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return forward(Needs::driver, &Driver::cuDeviceGetByPCIBusId, device, text);
}

cudaError_t berth_cudart_cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return forward(Needs::driver, &Driver::cuDeviceCanAccessPeer, can, device, peer);
}

cudaError_t berth_cudart_cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call(Needs::context, [&](const Driver& driver) {
    CUresult result = check_device(driver, peer);
    CUcontext context = nullptr;
    if (result == CUDA_SUCCESS) result = primary_context(driver, peer, context);
    if (result == CUDA_SUCCESS) result = driver.cuCtxEnablePeerAccess(context, flags);
    // The current device itself; the driver refuses a context as its own peer.
    return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_INVALID_DEVICE : result;
  });
}

cudaError_t berth_cudart_cudaDeviceDisablePeerAccess(int peer) {
  return call(Needs::context, [&](const Driver& driver) {
    CUresult result = check_device(driver, peer);
    CUcontext context = nullptr;
    if (result == CUDA_SUCCESS) result = primary_context(driver, peer, context);
    return result == CUDA_SUCCESS ? driver.cuCtxDisablePeerAccess(context) : result;
  });
}

cudaError_t berth_cudart_cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute,
                                                   int source, int destination) {
  return forward(Needs::driver, &Driver::cuDeviceGetP2PAttribute, value,
                 static_cast<CUdevice_P2PAttribute>(attribute), source, destination);
}

cudaError_t berth_cudart_cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return forward(Needs::context, &Driver::cuCtxGetStreamPriorityRange, least, greatest);
}

cudaError_t berth_cudart_cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return forward(Needs::context, &Driver::cuCtxGetLimit, value, static_cast<CUlimit>(limit));
}

cudaError_t berth_cudart_cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return forward(Needs::context, &Driver::cuCtxSetLimit, static_cast<CUlimit>(limit), value);
}

cudaError_t berth_cudart_cudaDeviceGetCacheConfig(cudaFuncCache* preference) {
  return forward(Needs::context, &Driver::cuCtxGetCacheConfig, same<CUfunc_cache*>(preference));
}

cudaError_t berth_cudart_cudaDeviceSetCacheConfig(cudaFuncCache preference) {
  return forward(Needs::context, &Driver::cuCtxSetCacheConfig,
                 static_cast<CUfunc_cache>(preference));
}

// Since Maxwell, shared memory banks have one size.
cudaError_t berth_cudart_cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return call(Needs::context, [&](const Driver&) {
    if (config == nullptr) return cudaErrorInvalidValue;
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
  });
}

cudaError_t berth_cudart_cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return call(Needs::context, [&](const Driver&) {
    const bool is_known =
        config >= cudaSharedMemBankSizeDefault && config <= cudaSharedMemBankSizeEightByte;
    return is_known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t berth_cudart_cudaCtxResetPersistingL2Cache() {
  return forward(Needs::context, &Driver::cuCtxResetPersistingL2Cache);
}

cudaError_t berth_cudart_cudaDeviceFlushGPUDirectRDMAWrites(
    cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope) {
  return forward(Needs::context, &Driver::cuFlushGPUDirectRDMAWrites,
                 static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                 static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
}

cudaError_t berth_cudart_cudaDeviceSynchronize() {
  return forward(Needs::context, &Driver::cuCtxSynchronize);
}

// The next call that needs the device creates a new context.
cudaError_t berth_cudart_cudaDeviceReset() {
  return call(Needs::driver, [&](const Driver& driver) {
    int device = 0;
    const CUresult known = current_device(driver, device);
    return known == CUDA_SUCCESS ? reset_device(driver, device) : known;
  });
}

cudaError_t berth_cudart_cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return forward(Needs::driver, &Driver::cuDeviceGetDefaultMemPool, pool, device);
}

cudaError_t berth_cudart_cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return forward(Needs::driver, &Driver::cuDeviceGetMemPool, pool, device);
}

cudaError_t berth_cudart_cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return forward(Needs::driver, &Driver::cuDeviceSetMemPool, device, pool);
}

cudaError_t berth_cudart_cudaDeviceGetGraphMemAttribute(int device,
                                                        cudaGraphMemAttributeType attribute,
                                                        void* value) {
  return forward(Needs::driver, &Driver::cuDeviceGetGraphMemAttribute, device,
                 static_cast<CUgraphMem_attribute>(attribute), value);
}

cudaError_t berth_cudart_cudaDeviceSetGraphMemAttribute(int device,
                                                        cudaGraphMemAttributeType attribute,
                                                        void* value) {
  return forward(Needs::driver, &Driver::cuDeviceSetGraphMemAttribute, device,
                 static_cast<CUgraphMem_attribute>(attribute), value);
}

cudaError_t berth_cudart_cudaDeviceGraphMemTrim(int device) {
  return forward(Needs::driver, &Driver::cuDeviceGraphMemTrim, device);
}

cudaError_t berth_cudart_12_cudaThreadExit() {
  return berth_cudart_cudaDeviceReset();
}

cudaError_t berth_cudart_12_cudaThreadSynchronize() {
  return berth_cudart_cudaDeviceSynchronize();
}

cudaError_t berth_cudart_12_cudaThreadGetLimit(std::size_t* value, cudaLimit limit) {
  return berth_cudart_cudaDeviceGetLimit(value, limit);
}

cudaError_t berth_cudart_12_cudaThreadSetLimit(cudaLimit limit, std::size_t value) {
  return berth_cudart_cudaDeviceSetLimit(limit, value);
}

cudaError_t berth_cudart_12_cudaThreadGetCacheConfig(cudaFuncCache* preference) {
  return berth_cudart_cudaDeviceGetCacheConfig(preference);
}

cudaError_t berth_cudart_12_cudaThreadSetCacheConfig(cudaFuncCache preference) {
  return berth_cudart_cudaDeviceSetCacheConfig(preference);
}

}  // namespace berth::cudart
