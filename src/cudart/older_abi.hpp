// SPDX-License-Identifier: Apache-2.0
// The parts of the ABI of libcudart.so.12 that differ from the headers of CUDA 13: function types,
// and the layout of results.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

namespace berth::cudart::older_abi {

/// cudaDeviceProp of CUDA 12. That of CUDA 11 ends after reservedSharedMemPerBlock.
struct DeviceProperties {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  std::size_t totalConstMem;
  int major;
  int minor;
  std::size_t textureAlignment;
  std::size_t texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int maxTexture1D;
  int maxTexture1DMipmap;
  int maxTexture1DLinear;
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  std::size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  int cooperativeMultiDeviceLaunch;
  std::size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  std::size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int reserved[63];
};
static_assert(sizeof(DeviceProperties) == 1032);

/// cudaPointerAttributes of CUDA 12.
struct PointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};

using GetDeviceProperties11 = cudaError_t(DeviceProperties* properties, int device);
using GetDeviceProperties12 = cudaError_t(DeviceProperties* properties, int device);
using PointerGetAttributes12 = cudaError_t(PointerAttributes* attributes, const void* pointer);
using EventElapsedTime12 = cudaError_t(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
using MemPrefetchAsync12 = cudaError_t(const void* pointer, std::size_t bytes, int device,
                                       cudaStream_t stream);
using MemAdvise12 = cudaError_t(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice,
                                int device);
using MemcpyBatchAsync12 = cudaError_t(void** destinations, void** sources, std::size_t* bytes,
                                       std::size_t count, cudaMemcpyAttributes* attributes,
                                       std::size_t* firsts, std::size_t attribute_count,
                                       std::size_t* failed, cudaStream_t stream);
using Memcpy3DBatchAsync12 = cudaError_t(std::size_t count, cudaMemcpy3DBatchOp* copies,
                                         std::size_t* failed, unsigned long long flags,
                                         cudaStream_t stream);
using StreamGetCaptureInfo10 = cudaError_t(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                           unsigned long long* id);
using StreamGetCaptureInfo12 = cudaError_t(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                           unsigned long long* id, cudaGraph_t* graph,
                                           const cudaGraphNode_t** dependencies,
                                           std::size_t* count);
using StreamUpdateCaptureDependencies12 = cudaError_t(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                      std::size_t count, unsigned flags);
using GraphGetEdges12 = cudaError_t(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                    std::size_t* count);
using GraphNodeGetDependencies12 = cudaError_t(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                               std::size_t* count);
using GraphAddDependencies12 = cudaError_t(cudaGraph_t graph, const cudaGraphNode_t* from,
                                           const cudaGraphNode_t* to, std::size_t count);
using GraphAddNode12 = cudaError_t(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, std::size_t count,
                                   cudaGraphNodeParams* parameters);
using ThreadCall = cudaError_t();
using ThreadGetLimit = cudaError_t(std::size_t* value, cudaLimit limit);
using ThreadSetLimit = cudaError_t(cudaLimit limit, std::size_t value);
using ThreadGetCacheConfig = cudaError_t(cudaFuncCache* preference);
using ThreadSetCacheConfig = cudaError_t(cudaFuncCache preference);

}  // namespace berth::cudart::older_abi
