// SPDX-License-Identifier: Apache-2.0
// The CUDA driver below the runtime: libcuda.so.1 as found by the loader, only by its public
// functions. A function that the driver lacks returns CUDA_ERROR_NOT_SUPPORTED, and prints its name
// once on standard error.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "driver/newer_declarations.hpp"
#include "driver/sim_kernel_abi.hpp"

// X(symbol, since)
//   symbol   NVIDIA's name without a version suffix; cuda.h maps it to the newest ABI by macro
//   since    the CUDA version that brought this ABI, which is the one that is asked for
// clang-format off
#define BERTH_CUDART_DRIVER_FUNCTIONS(X) \
  X(cuInit,                        2000) \
  X(cuDeviceGetCount,              2000) \
  X(cuDeviceGetName,               2000) \
  X(cuDeviceGetUuid,               11040) \
  X(cuDeviceTotalMem,              3020) \
  X(cuDeviceGetAttribute,          2000) \
  X(cuDeviceGetPCIBusId,           4010) \
  X(cuDeviceGetByPCIBusId,         4010) \
  X(cuDeviceCanAccessPeer,         4000) \
  X(cuDeviceGetP2PAttribute,       8000) \
  X(cuDeviceGetDefaultMemPool,     11020) \
  X(cuDeviceGetMemPool,            11020) \
  X(cuDeviceSetMemPool,            11020) \
  X(cuDeviceGetGraphMemAttribute,  11040) \
  X(cuDeviceSetGraphMemAttribute,  11040) \
  X(cuDeviceGraphMemTrim,          11040) \
  X(cuDevicePrimaryCtxRetain,      7000) \
  X(cuDevicePrimaryCtxRelease,     11000) \
  X(cuDevicePrimaryCtxReset,       11000) \
  X(cuDevicePrimaryCtxSetFlags,    11000) \
  X(cuDevicePrimaryCtxGetState,    7000) \
  X(cuCtxGetCurrent,               4000) \
  X(cuCtxSetCurrent,               4000) \
  X(cuCtxGetDevice,                2000) \
  X(cuCtxSynchronize,              2000) \
  X(cuCtxGetStreamPriorityRange,   5050) \
  X(cuCtxGetLimit,                 3010) \
  X(cuCtxSetLimit,                 3010) \
  X(cuCtxGetCacheConfig,           3020) \
  X(cuCtxSetCacheConfig,           3020) \
  X(cuCtxResetPersistingL2Cache,   11000) \
  X(cuFlushGPUDirectRDMAWrites,    11030) \
  X(cuCtxEnablePeerAccess,         4000) \
  X(cuCtxDisablePeerAccess,        4000) \
  X(cuStreamCreate,                2000) \
  X(cuStreamCreateWithPriority,    5050) \
  X(cuStreamDestroy,               4000) \
  X(cuStreamGetFlags,              5050) \
  X(cuStreamGetPriority,           5050) \
  X(cuStreamGetId,                 12000) \
  X(cuStreamGetDevice,             12080) \
  X(cuStreamGetAttribute,          11000) \
  X(cuStreamSetAttribute,          11000) \
  X(cuStreamCopyAttributes,        11000) \
  X(cuStreamAttachMemAsync,        6000) \
  X(cuStreamQuery,                 2000) \
  X(cuStreamSynchronize,           2000) \
  X(cuStreamWaitEvent,             3020) \
  X(cuStreamAddCallback,           5000) \
  X(cuLaunchHostFunc,              10000) \
  X(cuStreamBeginCapture,          10010) \
  X(cuStreamBeginCaptureToGraph,   12030) \
  X(cuStreamEndCapture,            10000) \
  X(cuStreamIsCapturing,           10000) \
  X(cuStreamGetCaptureInfo,        12030) \
  X(cuStreamUpdateCaptureDependencies, 12030) \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuEventCreate,                 2000) \
  X(cuEventDestroy,                4000) \
  X(cuEventRecord,                 2000) \
  X(cuEventRecordWithFlags,        11010) \
  X(cuEventQuery,                  2000) \
  X(cuEventSynchronize,            2000) \
  X(cuEventElapsedTime,            2000) \
  X(cuIpcGetEventHandle,           4010) \
  X(cuIpcOpenEventHandle,          4010) \
  X(cuIpcGetMemHandle,             4010) \
  X(cuIpcOpenMemHandle,            11000) \
  X(cuIpcCloseMemHandle,           4010) \
  X(cuMemAlloc,                    3020) \
  X(cuMemAllocPitch,               3020) \
  X(cuMemAllocManaged,             6000) \
  X(cuMemFree,                     3020) \
  X(cuMemHostAlloc,                2020) \
  X(cuMemFreeHost,                 2000) \
  X(cuMemHostRegister,             6050) \
  X(cuMemHostUnregister,           4000) \
  X(cuMemHostGetDevicePointer,     3020) \
  X(cuMemHostGetFlags,             2030) \
  X(cuMemGetInfo,                  3020) \
  X(cuPointerGetAttributes,        7000) \
  X(cuMemPrefetchAsync,            12020) \
  X(cuMemPrefetchBatchAsync,       13000) \
  X(cuMemGetDefaultMemPool,        13000) \
  X(cuMemGetMemPool,               13000) \
  X(cuMemSetMemPool,               13000) \
  X(cuMemAdvise,                   12020) \
  X(cuMemRangeGetAttribute,        8000) \
  X(cuMemRangeGetAttributes,       8000) \
  X(cuMemAllocAsync,               11020) \
  X(cuMemAllocFromPoolAsync,       11020) \
  X(cuMemFreeAsync,                11020) \
  X(cuMemPoolCreate,               11020) \
  X(cuMemPoolDestroy,              11020) \
  X(cuMemPoolSetAttribute,         11020) \
  X(cuMemPoolGetAttribute,         11020) \
  X(cuMemPoolSetAccess,            11020) \
  X(cuMemPoolGetAccess,            11020) \
  X(cuMemPoolTrimTo,               11020) \
  X(cuMemPoolExportToShareableHandle, 11020) \
  X(cuMemPoolImportFromShareableHandle, 11020) \
  X(cuMemPoolExportPointer,        11020) \
  X(cuMemPoolImportPointer,        11020) \
  X(cuMemcpy,                      4000) \
  X(cuMemcpyAsync,                 4000) \
  X(cuMemcpyHtoD,                  3020) \
  X(cuMemcpyHtoDAsync,             3020) \
  X(cuMemcpyDtoH,                  3020) \
  X(cuMemcpyDtoHAsync,             3020) \
  X(cuMemcpyDtoD,                  3020) \
  X(cuMemcpyDtoDAsync,             3020) \
  X(cuMemcpyPeer,                  4000) \
  X(cuMemcpyPeerAsync,             4000) \
  X(cuMemcpy2DUnaligned,           3020) \
  X(cuMemcpy2DAsync,               3020) \
  X(cuMemcpyBatchAsync,            13000) \
  X(cuMemcpy3DBatchAsync,          13000) \
  X(cuMemcpyWithAttributesAsync,   13020) \
  X(cuMemcpy3DWithAttributesAsync, 13020) \
  X(cuMemsetD8,                    3020) \
  X(cuMemsetD8Async,               3020) \
  X(cuMemsetD2D8,                  3020) \
  X(cuMemsetD2D8Async,             3020) \
  X(cuLaunchKernel,                4000) \
  X(cuLaunchKernelEx,              11060) \
  X(cuLaunchCooperativeKernel,     9000) \
  X(cuFuncGetName,                 12030) \
  X(cuFuncGetAttribute,            2020) \
  X(cuFuncSetAttribute,            9000) \
  X(cuFuncSetCacheConfig,          3000) \
  X(cuKernelGetFunction,           12000) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) \
  X(cuOccupancyAvailableDynamicSMemPerBlock, 10020) \
  X(cuOccupancyMaxActiveClusters,  11070) \
  X(cuOccupancyMaxPotentialClusterSize, 11070) \
  X(cuLibraryLoadData,             12000) \
  X(cuLibraryLoadFromFile,         12000) \
  X(cuLibraryUnload,               12000) \
  X(cuLibraryGetKernel,            12000) \
  X(cuLibraryGetGlobal,            12000) \
  X(cuLibraryGetManaged,           12000) \
  X(cuLibraryGetKernelCount,       12040) \
  X(cuLibraryEnumerateKernels,     12040) \
  X(cuGraphCreate,                 10000) \
  X(cuGraphDestroy,                10000) \
  X(cuGraphClone,                  10000) \
  X(cuGraphAddEmptyNode,           10000) \
  X(cuGraphAddChildGraphNode,      10000) \
  X(cuGraphChildGraphNodeGetGraph, 10000) \
  X(cuGraphNodeFindInClone,        10000) \
  X(cuGraphGetNodes,               10000) \
  X(cuGraphGetRootNodes,           10000) \
  X(cuGraphGetEdges,               12030) \
  X(cuGraphNodeGetType,            10000) \
  X(cuGraphNodeGetDependencies,    12030) \
  X(cuGraphNodeGetDependentNodes,  12030) \
  X(cuGraphAddDependencies,        12030) \
  X(cuGraphRemoveDependencies,     12030) \
  X(cuGraphDestroyNode,            10000) \
  X(cuGraphAddMemcpyNode,          10000) \
  X(cuGraphMemcpyNodeGetParams,    10000) \
  X(cuGraphMemcpyNodeSetParams,    10000) \
  X(cuGraphExecMemcpyNodeSetParams, 10020) \
  X(cuGraphAddKernelNode,          12000) \
  X(cuGraphKernelNodeGetParams,    12000) \
  X(cuGraphKernelNodeSetParams,    12000) \
  X(cuGraphExecKernelNodeSetParams, 12000) \
  X(cuGraphKernelNodeGetAttribute, 11000) \
  X(cuGraphKernelNodeSetAttribute, 11000) \
  X(cuGraphKernelNodeCopyAttributes, 11000) \
  X(cuGraphAddMemsetNode,          10000) \
  X(cuGraphMemsetNodeGetParams,    10000) \
  X(cuGraphMemsetNodeSetParams,    10000) \
  X(cuGraphExecMemsetNodeSetParams, 10020) \
  X(cuGraphAddHostNode,            10000) \
  X(cuGraphHostNodeGetParams,      10000) \
  X(cuGraphHostNodeSetParams,      10000) \
  X(cuGraphExecHostNodeSetParams,  10020) \
  X(cuGraphAddEventRecordNode,     11010) \
  X(cuGraphEventRecordNodeGetEvent, 11010) \
  X(cuGraphEventRecordNodeSetEvent, 11010) \
  X(cuGraphExecEventRecordNodeSetEvent, 11010) \
  X(cuGraphAddEventWaitNode,       11010) \
  X(cuGraphEventWaitNodeGetEvent,  11010) \
  X(cuGraphEventWaitNodeSetEvent,  11010) \
  X(cuGraphExecEventWaitNodeSetEvent, 11010) \
  X(cuGraphAddMemAllocNode,        11040) \
  X(cuGraphMemAllocNodeGetParams,  11040) \
  X(cuGraphAddMemFreeNode,         11040) \
  X(cuGraphMemFreeNodeGetParams,   11040) \
  X(cuGraphExecChildGraphNodeSetParams, 11010) \
  X(cuGraphNodeSetEnabled,         11060) \
  X(cuGraphNodeGetEnabled,         11060) \
  X(cuGraphAddNode,                12030) \
  X(cuGraphNodeSetParams,          12020) \
  X(cuGraphExecNodeSetParams,      12020) \
  X(cuGraphExecGetFlags,           12000) \
  X(cuGraphInstantiateWithFlags,   11040) \
  X(cuGraphInstantiateWithParams,  12000) \
  X(cuGraphUpload,                 11010) \
  X(cuGraphLaunch,                 10000) \
  X(cuGraphExecDestroy,            10000) \
  X(cuGraphExecUpdate,             12000) \
  X(cuGraphDebugDotPrint,          11030) \
  X(cuUserObjectCreate,            11030) \
  X(cuUserObjectRetain,            11030) \
  X(cuUserObjectRelease,           11030) \
  X(cuGraphRetainUserObject,       11030) \
  X(cuGraphReleaseUserObject,      11030)
// clang-format on

namespace berth::cudart {

struct Driver {
#define BERTH_CUDART_MEMBER(symbol, since) decltype(::symbol)* symbol;
  BERTH_CUDART_DRIVER_FUNCTIONS(BERTH_CUDART_MEMBER)
#undef BERTH_CUDART_MEMBER
};

/// The driver functions in both forms. Never unloaded.
struct LoadedDriver {
  int version = 0;
  decltype(::cuGetProcAddress)* get_proc_address = nullptr;
  Driver legacy;      ///< the null stream is the legacy default stream
  Driver per_thread;  ///< the null stream is the calling thread's default stream
  /// Of the simulated driver only; null with other drivers.
  sim_abi::KernelByName* kernel_by_name = nullptr;
  sim_abi::CurrentContext* current_context = nullptr;
};

/// Null before the first use.
inline constinit std::atomic<const LoadedDriver*> driver_in_use = nullptr;
const LoadedDriver* load_driver();

/// Null if there is no libcuda.so.1, or if it is older than CUDA 12.
/// Threads  any
inline const LoadedDriver* loaded_driver() {
  const LoadedDriver* const driver = driver_in_use.load(std::memory_order_acquire);
  return driver != nullptr ? driver : load_driver();
}

}  // namespace berth::cudart
