// SPDX-License-Identifier: Apache-2.0
// Every simulated function, in one list:
//
//   X(symbol, names, since)
//
// symbol    NVIDIA's name without a version suffix; cuda.h maps it to the newest ABI by macro
// names     what the look-alike library exports. plain: the symbol. v2, v3, v4: the symbol with
//           that suffix, because the names before it are older ABIs, which are not simulated. both:
//           the symbol with and without _v2, which take the same arguments. newer: the symbol with
//           _v2; the plain one is an older ABI, which is simulated too, as berth_sim_<symbol>_v1.
// since     the CUDA version that brought this ABI
//
// Each is defined once as berth_sim_<symbol>, which libberth_sim exports to the look-alikes. No
// object here may define a global cu* or nvml* name: a program that links libberth_sim may link the
// real libraries.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cudaProfiler.h>

#include "berth/export.h"

#include "driver/newer_declarations.hpp"
#include "driver/sim_abi.hpp"
#include "driver/sim_kernel_abi.hpp"
#include "sim/nvml/functions.hpp"

// clang-format off
#define BERTH_SIM_FUNCTIONS(X) \
  X(cuInit,                        plain, 2000) \
  X(cuDriverGetVersion,            plain, 2020) \
  X(cuGetErrorName,                plain, 6000) \
  X(cuGetErrorString,              plain, 6000) \
  X(cuGetExportTable,              plain, 3000) \
  X(cuModuleGetLoadingMode,        plain, 11070) \
  X(cuDeviceGetCount,              plain, 2000) \
  X(cuDeviceGet,                   plain, 2000) \
  X(cuDeviceGetName,               plain, 2000) \
  X(cuDeviceGetUuid,               both,  9020) \
  X(cuDeviceGetPCIBusId,           plain, 4010) \
  X(cuDeviceGetByPCIBusId,         plain, 4010) \
  X(cuDeviceTotalMem,              v2,    3020) \
  X(cuDeviceGetAttribute,          plain, 2000) \
  X(cuDeviceGetProperties,         plain, 2000) \
  X(cuDeviceComputeCapability,     plain, 2000) \
  X(cuDeviceGetExecAffinitySupport, plain, 11040) \
  X(cuDeviceCanAccessPeer,         plain, 4000) \
  X(cuDeviceGetP2PAttribute,       plain, 8000) \
  X(cuDevicePrimaryCtxRetain,      plain, 7000) \
  X(cuDevicePrimaryCtxRelease,     both,  7000) \
  X(cuDevicePrimaryCtxReset,       both,  7000) \
  X(cuDevicePrimaryCtxSetFlags,    both,  7000) \
  X(cuDevicePrimaryCtxGetState,    plain, 7000) \
  X(cuCtxCreate,                   v4,    12050) \
  X(cuCtxDestroy,                  both,  2000) \
  X(cuCtxPushCurrent,              both,  2000) \
  X(cuCtxPopCurrent,               both,  2000) \
  X(cuCtxGetCurrent,               plain, 4000) \
  X(cuCtxSetCurrent,               plain, 4000) \
  X(cuCtxGetDevice,                plain, 2000) \
  X(cuCtxGetApiVersion,            plain, 3020) \
  X(cuCtxGetFlags,                 plain, 7000) \
  X(cuCtxGetId,                    plain, 12000) \
  X(cuCtxSetFlags,                 plain, 12010) \
  X(cuCtxGetLimit,                 plain, 3010) \
  X(cuCtxSetLimit,                 plain, 3010) \
  X(cuCtxGetCacheConfig,           plain, 3020) \
  X(cuCtxSetCacheConfig,           plain, 3020) \
  X(cuCtxResetPersistingL2Cache,   plain, 11000) \
  X(cuFlushGPUDirectRDMAWrites,    plain, 11030) \
  X(cuProfilerStart,               plain, 4000) \
  X(cuProfilerStop,                plain, 4000) \
  X(cuCtxSynchronize,              plain, 2000) \
  X(cuCtxGetStreamPriorityRange,   plain, 5050) \
  X(cuCtxEnablePeerAccess,         plain, 4000) \
  X(cuCtxDisablePeerAccess,        plain, 4000) \
  X(cuMemGetInfo,                  v2,    3020) \
  X(cuMemAlloc,                    v2,    3020) \
  X(cuMemFree,                     v2,    3020) \
  X(cuMemHostAlloc,                plain, 2020) \
  X(cuMemAllocHost,                v2,    3020) \
  X(cuMemHostGetDevicePointer,     v2,    3020) \
  X(cuMemHostGetFlags,             plain, 2030) \
  X(cuMemGetAddressRange,          v2,    3020) \
  X(cuMemFreeHost,                 plain, 2000) \
  X(cuMemHostRegister,             both,  4000) \
  X(cuMemHostUnregister,           plain, 4000) \
  X(cuPointerGetAttribute,         plain, 4000) \
  X(cuPointerGetAttributes,        plain, 7000) \
  X(cuPointerSetAttribute,         plain, 6000) \
  X(cuMemGetAllocationGranularity, plain, 10020) \
  X(cuMemAddressReserve,           plain, 10020) \
  X(cuMemAddressFree,              plain, 10020) \
  X(cuMemCreate,                   plain, 10020) \
  X(cuMemRelease,                  plain, 10020) \
  X(cuMemMap,                      plain, 10020) \
  X(cuMemUnmap,                    plain, 10020) \
  X(cuMemSetAccess,                plain, 10020) \
  X(cuMemGetAccess,                plain, 10020) \
  X(cuMemExportToShareableHandle,  plain, 10020) \
  X(cuMemImportFromShareableHandle, plain, 10020) \
  X(cuMemRetainAllocationHandle,   plain, 11000) \
  X(cuMemGetAllocationPropertiesFromHandle, plain, 10020) \
  X(cuMemAllocAsync,               plain, 11020) \
  X(cuMemAllocFromPoolAsync,       plain, 11020) \
  X(cuMemFreeAsync,                plain, 11020) \
  X(cuMemPoolCreate,               plain, 11020) \
  X(cuMemPoolDestroy,              plain, 11020) \
  X(cuMemPoolSetAttribute,         plain, 11020) \
  X(cuMemPoolGetAttribute,         plain, 11020) \
  X(cuMemPoolTrimTo,               plain, 11020) \
  X(cuMemPoolSetAccess,            plain, 11020) \
  X(cuMemPoolGetAccess,            plain, 11020) \
  X(cuDeviceGetDefaultMemPool,     plain, 11020) \
  X(cuDeviceGetMemPool,            plain, 11020) \
  X(cuDeviceSetMemPool,            plain, 11020) \
  X(cuMemGetDefaultMemPool,        plain, 13000) \
  X(cuMemGetMemPool,               plain, 13000) \
  X(cuMemSetMemPool,               plain, 13000) \
  X(cuStreamCreate,                plain, 2000) \
  X(cuStreamCreateWithPriority,    plain, 5050) \
  X(cuStreamGetFlags,              plain, 5050) \
  X(cuStreamGetPriority,           plain, 5050) \
  X(cuStreamGetId,                 plain, 12000) \
  X(cuStreamGetCtx,                plain, 9020) \
  X(cuStreamGetDevice,             plain, 12080) \
  X(cuStreamGetAttribute,          plain, 11000) \
  X(cuStreamSetAttribute,          plain, 11000) \
  X(cuStreamCopyAttributes,        plain, 11000) \
  X(cuStreamAttachMemAsync,        plain, 6000) \
  X(cuStreamDestroy,               both,  2000) \
  X(cuStreamQuery,                 plain, 2000) \
  X(cuStreamSynchronize,           plain, 2000) \
  X(cuStreamWaitEvent,             plain, 3020) \
  X(cuStreamWaitValue32,           v2,    11070) \
  X(cuStreamWaitValue64,           v2,    11070) \
  X(cuStreamWriteValue32,          v2,    11070) \
  X(cuStreamWriteValue64,          v2,    11070) \
  X(cuStreamBatchMemOp,            v2,    11070) \
  X(cuLaunchHostFunc,              plain, 10000) \
  X(cuLaunchKernel,                plain, 4000) \
  X(cuLaunchKernelEx,              plain, 11060) \
  X(cuLaunchCooperativeKernel,     plain, 9000) \
  X(cuModuleLoad,                  plain, 2000) \
  X(cuModuleLoadData,              plain, 2000) \
  X(cuModuleLoadDataEx,            plain, 2010) \
  X(cuModuleLoadFatBinary,         plain, 2000) \
  X(cuModuleUnload,                plain, 2000) \
  X(cuModuleGetFunction,           plain, 2000) \
  X(cuModuleGetGlobal,             v2,    3020) \
  X(cuFuncGetModule,               plain, 11000) \
  X(cuFuncGetName,                 plain, 12030) \
  X(cuFuncGetAttribute,            plain, 2020) \
  X(cuFuncSetAttribute,            plain, 9000) \
  X(cuFuncSetCacheConfig,          plain, 3000) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, plain, 6050) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, plain, 7000) \
  X(cuOccupancyMaxPotentialBlockSize, plain, 6050) \
  X(cuOccupancyMaxPotentialBlockSizeWithFlags, plain, 7000) \
  X(cuOccupancyAvailableDynamicSMemPerBlock, plain, 10020) \
  X(cuOccupancyMaxActiveClusters,  plain, 11070) \
  X(cuOccupancyMaxPotentialClusterSize, plain, 11070) \
  X(cuLibraryLoadData,             plain, 12000) \
  X(cuLibraryLoadFromFile,         plain, 12000) \
  X(cuLibraryUnload,               plain, 12000) \
  X(cuLibraryGetKernel,            plain, 12000) \
  X(cuLibraryGetModule,            plain, 12000) \
  X(cuLibraryGetGlobal,            plain, 12000) \
  X(cuLibraryGetManaged,           plain, 12000) \
  X(cuKernelGetFunction,           plain, 12000) \
  X(cuKernelGetLibrary,            plain, 12050) \
  X(cuKernelGetName,               plain, 12030) \
  X(cuKernelGetAttribute,          plain, 12000) \
  X(cuKernelSetAttribute,          plain, 12000) \
  X(cuKernelSetCacheConfig,        plain, 12000) \
  X(cuModuleGetFunctionCount,      plain, 12040) \
  X(cuModuleEnumerateFunctions,    plain, 12040) \
  X(cuFuncGetParamInfo,            plain, 12040) \
  X(cuFuncLoad,                    plain, 12040) \
  X(cuFuncIsLoaded,                plain, 12040) \
  X(cuLibraryGetKernelCount,       plain, 12040) \
  X(cuLibraryEnumerateKernels,     plain, 12040) \
  X(cuKernelGetParamInfo,          plain, 12040) \
  X(cuStreamAddCallback,           plain, 5000) \
  X(cuEventCreate,                 plain, 2000) \
  X(cuEventDestroy,                both,  2000) \
  X(cuEventRecord,                 plain, 2000) \
  X(cuEventQuery,                  plain, 2000) \
  X(cuEventSynchronize,            plain, 2000) \
  X(cuEventElapsedTime,            both,  2000) \
  X(cuMemcpyAsync,                 plain, 4000) \
  X(cuMemcpyPeerAsync,             plain, 4000) \
  X(cuMemcpy,                      plain, 4000) \
  X(cuMemcpyPeer,                  plain, 4000) \
  X(cuMemcpyHtoD,                  v2,    3020) \
  X(cuMemcpyDtoH,                  v2,    3020) \
  X(cuMemcpyDtoD,                  v2,    3020) \
  X(cuMemcpyHtoDAsync,             v2,    3020) \
  X(cuMemcpyDtoHAsync,             v2,    3020) \
  X(cuMemcpyDtoDAsync,             v2,    3020) \
  X(cuMemcpy2D,                    v2,    3020) \
  X(cuMemcpy2DUnaligned,           v2,    3020) \
  X(cuMemcpy2DAsync,               v2,    3020) \
  X(cuMemcpy3D,                    v2,    3020) \
  X(cuMemcpy3DAsync,               v2,    3020) \
  X(cuMemcpy3DPeer,                plain, 4000) \
  X(cuMemcpy3DPeerAsync,           plain, 4000) \
  X(cuMemcpyBatchAsync,            v2,    13000) \
  X(cuMemcpy3DBatchAsync,          v2,    13000) \
  X(cuMemcpyWithAttributesAsync,   plain, 13020) \
  X(cuMemcpy3DWithAttributesAsync, plain, 13020) \
  X(cuMemAllocPitch,               v2,    3020) \
  X(cuIpcGetMemHandle,             plain, 4010) \
  X(cuIpcOpenMemHandle,            v2,    11000) \
  X(cuIpcCloseMemHandle,           plain, 4010) \
  X(cuIpcGetEventHandle,           plain, 4010) \
  X(cuIpcOpenEventHandle,          plain, 4010) \
  X(cuMemAllocManaged,             plain, 6000) \
  X(cuMemPrefetchAsync,            newer, 12020) \
  X(cuMemAdvise,                   newer, 12020) \
  X(cuMemPrefetchBatchAsync,       plain, 13000) \
  X(cuMemRangeGetAttribute,        plain, 8000) \
  X(cuMemRangeGetAttributes,       plain, 8000) \
  X(cuMemsetD8,                    v2,    3020) \
  X(cuMemsetD16,                   v2,    3020) \
  X(cuMemsetD32,                   v2,    3020) \
  X(cuMemsetD2D8,                  v2,    3020) \
  X(cuMemsetD2D16,                 v2,    3020) \
  X(cuMemsetD2D32,                 v2,    3020) \
  X(cuMemsetD8Async,               plain, 3020) \
  X(cuMemsetD16Async,              plain, 3020) \
  X(cuMemsetD32Async,              plain, 3020) \
  X(cuMemsetD2D8Async,             plain, 3020) \
  X(cuMemsetD2D16Async,            plain, 3020) \
  X(cuMemsetD2D32Async,            plain, 3020) \
  X(cuEventRecordWithFlags,        plain, 11010) \
  X(cuStreamBeginCapture,          v2,    10010) \
  X(cuStreamBeginCaptureToGraph,   plain, 12030) \
  X(cuStreamUpdateCaptureDependencies, v2, 12030) \
  X(cuStreamEndCapture,            plain, 10000) \
  X(cuStreamIsCapturing,           plain, 10000) \
  X(cuStreamGetCaptureInfo,        v3,    12030) \
  X(cuThreadExchangeStreamCaptureMode, plain, 10010) \
  X(cuGraphCreate,                 plain, 10000) \
  X(cuGraphDestroy,                plain, 10000) \
  X(cuGraphAddEmptyNode,           plain, 10000) \
  X(cuGraphClone,                  plain, 10000) \
  X(cuGraphNodeFindInClone,        plain, 10000) \
  X(cuGraphAddChildGraphNode,      plain, 10000) \
  X(cuGraphChildGraphNodeGetGraph, plain, 10000) \
  X(cuGraphGetNodes,               plain, 10000) \
  X(cuGraphAddHostNode,            plain, 10000) \
  X(cuGraphHostNodeGetParams,      plain, 10000) \
  X(cuGraphHostNodeSetParams,      plain, 10000) \
  X(cuGraphExecHostNodeSetParams,  plain, 10020) \
  X(cuGraphAddEventRecordNode,     plain, 11010) \
  X(cuGraphEventRecordNodeGetEvent, plain, 11010) \
  X(cuGraphEventRecordNodeSetEvent, plain, 11010) \
  X(cuGraphExecEventRecordNodeSetEvent, plain, 11010) \
  X(cuGraphAddEventWaitNode,       plain, 11010) \
  X(cuGraphEventWaitNodeGetEvent,  plain, 11010) \
  X(cuGraphEventWaitNodeSetEvent,  plain, 11010) \
  X(cuGraphExecEventWaitNodeSetEvent, plain, 11010) \
  X(cuGraphAddMemcpyNode,          plain, 10000) \
  X(cuGraphMemcpyNodeGetParams,    plain, 10000) \
  X(cuGraphMemcpyNodeSetParams,    plain, 10000) \
  X(cuGraphExecMemcpyNodeSetParams, plain, 10020) \
  X(cuGraphAddKernelNode,          v2,    12000) \
  X(cuGraphKernelNodeGetParams,    v2,    12000) \
  X(cuGraphKernelNodeSetParams,    v2,    12000) \
  X(cuGraphExecKernelNodeSetParams, v2,   12000) \
  X(cuGraphKernelNodeGetAttribute, plain, 11000) \
  X(cuGraphKernelNodeSetAttribute, plain, 11000) \
  X(cuGraphKernelNodeCopyAttributes, plain, 11000) \
  X(cuGraphAddMemsetNode,          plain, 10000) \
  X(cuGraphMemsetNodeGetParams,    plain, 10000) \
  X(cuGraphMemsetNodeSetParams,    plain, 10000) \
  X(cuGraphExecMemsetNodeSetParams, plain, 10020) \
  X(cuGraphAddNode,                v2,    12030) \
  X(cuGraphNodeSetParams,          plain, 12020) \
  X(cuGraphExecNodeSetParams,      plain, 12020) \
  X(cuGraphAddDependencies,        v2,    12030) \
  X(cuGraphRemoveDependencies,     v2,    12030) \
  X(cuGraphDestroyNode,            plain, 10000) \
  X(cuGraphNodeSetEnabled,         plain, 11060) \
  X(cuGraphNodeGetEnabled,         plain, 11060) \
  X(cuGraphExecChildGraphNodeSetParams, plain, 11010) \
  X(cuGraphGetRootNodes,           plain, 10000) \
  X(cuGraphNodeGetDependencies,    v2,    12030) \
  X(cuGraphNodeGetDependentNodes,  v2,    12030) \
  X(cuGraphGetEdges,               v2,    12030) \
  X(cuGraphNodeGetType,            plain, 10000) \
  X(cuGraphInstantiateWithFlags,   plain, 11040) \
  X(cuGraphInstantiateWithParams,  plain, 12000) \
  X(cuGraphExecUpdate,             v2,    12000) \
  X(cuGraphDebugDotPrint,          plain, 11030) \
  X(cuGraphUpload,                 plain, 11010) \
  X(cuGraphExecGetFlags,           plain, 12000) \
  X(cuGraphAddMemAllocNode,        plain, 11040) \
  X(cuGraphMemAllocNodeGetParams,  plain, 11040) \
  X(cuGraphAddMemFreeNode,         plain, 11040) \
  X(cuGraphMemFreeNodeGetParams,   plain, 11040) \
  X(cuGraphAddBatchMemOpNode,      plain, 11070) \
  X(cuGraphBatchMemOpNodeGetParams, plain, 11070) \
  X(cuGraphBatchMemOpNodeSetParams, plain, 11070) \
  X(cuGraphExecBatchMemOpNodeSetParams, plain, 11070) \
  X(cuDeviceGraphMemTrim,          plain, 11040) \
  X(cuDeviceGetGraphMemAttribute,  plain, 11040) \
  X(cuDeviceSetGraphMemAttribute,  plain, 11040) \
  X(cuGraphLaunch,                 plain, 10000) \
  X(cuGraphExecDestroy,            plain, 10000) \
  X(cuUserObjectCreate,            plain, 11030) \
  X(cuUserObjectRetain,            plain, 11030) \
  X(cuUserObjectRelease,           plain, 11030) \
  X(cuGraphRetainUserObject,       plain, 11030) \
  X(cuGraphReleaseUserObject,      plain, 11030)
// clang-format on

namespace berth::sim {

/// The number that calls are counted under.
enum class Function {
#define BERTH_SIM_ENUMERATOR(symbol, names, since) k_##symbol,
  BERTH_SIM_FUNCTIONS(BERTH_SIM_ENUMERATOR)
#undef BERTH_SIM_ENUMERATOR
      count
};

// Deprecated functions are simulated, too.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern "C" {
// A definition with other parameters conflicts with these declarations, so the ABI is that of
// cuda.h.
#define BERTH_SIM_DECLARE(symbol, names, since) BERTH_API decltype(::symbol) berth_sim_##symbol;
BERTH_SIM_FUNCTIONS(BERTH_SIM_DECLARE)
#undef BERTH_SIM_DECLARE
#pragma GCC diagnostic pop

// The lookup function itself: the ABI of CUDA 11.3, and that of CUDA 12.
BERTH_API CUresult berth_sim_cuGetProcAddress(const char* symbol, void** function, int version,
                                              cuuint64_t flags);
BERTH_API CUresult berth_sim_cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                                 cuuint64_t flags,
                                                 CUdriverProcAddressQueryResult* status);

// Older ABIs: X(symbol, since).
#define BERTH_SIM_OLDER_FUNCTIONS(X) X(cuMemPrefetchAsync, 8000) X(cuMemAdvise, 8000)
BERTH_API CUresult berth_sim_cuMemPrefetchAsync_v1(CUdeviceptr pointer, std::size_t bytes,
                                                   CUdevice device, CUstream stream);
BERTH_API CUresult berth_sim_cuMemAdvise_v1(CUdeviceptr pointer, std::size_t bytes,
                                            CUmem_advise advice, CUdevice device);

// The functions of driver/sim_abi.hpp and driver/sim_kernel_abi.hpp, which are not CUDA calls and
// not counted.
#define BERTH_SIM_DECLARE(member, symbol, type) sim_abi::type berth_sim_##symbol;
BERTH_SIM_ONLY_FUNCTIONS(BERTH_SIM_DECLARE)
#undef BERTH_SIM_DECLARE
#define BERTH_SIM_DECLARE(symbol, type) sim_abi::type berth_sim_##symbol;
BERTH_SIM_PROGRAM_FUNCTIONS(BERTH_SIM_DECLARE)
BERTH_SIM_KERNEL_FUNCTIONS(BERTH_SIM_DECLARE)
#undef BERTH_SIM_DECLARE
}

/// See berth_sim_resolve().
void* resolve(const char* symbol) noexcept;

/// The name of `function` without version suffix; for Function::count, that of a kernel stand-in.
const char* function_name(Function function) noexcept;

}  // namespace berth::sim
