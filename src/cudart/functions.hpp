// SPDX-License-Identifier: Apache-2.0
// Every function that NVIDIA's libcudart.so.12 (12.9) and libcudart.so.13 (13.5) export, in three
// lists, the last of them in missing_functions.hpp. The two libraries, the declarations and the
// tests are made from them.
//
// BERTH_CUDART_FUNCTIONS     X(symbol, in12, null_stream): implemented as cuda_runtime_api.h of
//                            CUDA 13, or newer_declarations.hpp, declares it, in
//                            berth_cudart_<symbol>.
//   in12          what libcudart.so.12 calls it. same: the same. v2, v3: with that suffix, because
//                 the name without is an older ABI. none: it lacks it
//   null_stream   plain: one form. ptsz, ptds: a second form with that suffix, for programs
//                 compiled with --default-stream per-thread: in it the null stream is the calling
//                 thread's
// BERTH_CUDART_12_FUNCTIONS  X(symbol, type, null_stream): what libcudart.so.12 alone has, or has
//                            in an ABI of its own: `type` of older_abi.hpp, in
//                            berth_cudart_12_<symbol>.
// BERTH_CUDART_MISSING       X(symbol, majors): exported, and fails with cudaErrorNotSupported.
//   majors        both, only12 or only13
#pragma once

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "cudart/compiler_abi.hpp"
#include "cudart/missing_functions.hpp"
#include "cudart/newer_declarations.hpp"
#include "cudart/older_abi.hpp"

// clang-format off
#define BERTH_CUDART_FUNCTIONS(X) \
  X(cudaGetErrorName,              same, plain) \
  X(cudaGetErrorString,            same, plain) \
  X(cudaGetLastError,              same, plain) \
  X(cudaPeekAtLastError,           same, plain) \
  X(cudaDriverGetVersion,          same, plain) \
  X(cudaRuntimeGetVersion,         same, plain) \
  X(cudaGetDriverEntryPoint,       same, ptsz) \
  X(cudaGetDriverEntryPointByVersion, same, ptsz) \
  X(cudaProfilerStart,             same, plain) \
  X(cudaProfilerStop,              same, plain) \
  X(cudaGetDeviceCount,            same, plain) \
  X(cudaGetDevice,                 same, plain) \
  X(cudaSetDevice,                 same, plain) \
  X(cudaInitDevice,                same, plain) \
  X(cudaSetValidDevices,           same, plain) \
  X(cudaChooseDevice,              same, plain) \
  X(cudaGetDeviceFlags,            same, plain) \
  X(cudaSetDeviceFlags,            same, plain) \
  X(cudaGetDeviceProperties,       none, plain) \
  X(cudaDeviceGetAttribute,        same, plain) \
  X(cudaDeviceGetPCIBusId,         same, plain) \
  X(cudaDeviceGetByPCIBusId,       same, plain) \
  X(cudaDeviceCanAccessPeer,       same, plain) \
  X(cudaDeviceEnablePeerAccess,    same, plain) \
  X(cudaDeviceDisablePeerAccess,   same, plain) \
  X(cudaDeviceGetP2PAttribute,     same, plain) \
  X(cudaDeviceGetStreamPriorityRange, same, plain) \
  X(cudaDeviceGetLimit,            same, plain) \
  X(cudaDeviceSetLimit,            same, plain) \
  X(cudaDeviceGetCacheConfig,      same, plain) \
  X(cudaDeviceSetCacheConfig,      same, plain) \
  X(cudaDeviceGetSharedMemConfig,  same, plain) \
  X(cudaDeviceSetSharedMemConfig,  same, plain) \
  X(cudaCtxResetPersistingL2Cache, same, plain) \
  X(cudaDeviceFlushGPUDirectRDMAWrites, same, plain) \
  X(cudaDeviceSynchronize,         same, plain) \
  X(cudaDeviceReset,               same, plain) \
  X(cudaDeviceGetDefaultMemPool,   same, plain) \
  X(cudaDeviceGetMemPool,          same, plain) \
  X(cudaDeviceSetMemPool,          same, plain) \
  X(cudaStreamCreate,              same, plain) \
  X(cudaStreamCreateWithFlags,     same, plain) \
  X(cudaStreamCreateWithPriority,  same, plain) \
  X(cudaStreamDestroy,             same, plain) \
  X(cudaStreamGetFlags,            same, ptsz) \
  X(cudaStreamGetPriority,         same, ptsz) \
  X(cudaStreamGetId,               same, ptsz) \
  X(cudaStreamGetDevice,           same, ptsz) \
  X(cudaStreamGetAttribute,        same, ptsz) \
  X(cudaStreamSetAttribute,        same, ptsz) \
  X(cudaStreamCopyAttributes,      same, ptsz) \
  X(cudaStreamAttachMemAsync,      same, ptsz) \
  X(cudaStreamQuery,               same, ptsz) \
  X(cudaStreamSynchronize,         same, ptsz) \
  X(cudaStreamWaitEvent,           same, ptsz) \
  X(cudaStreamAddCallback,         same, ptsz) \
  X(cudaLaunchHostFunc,            same, ptsz) \
  X(cudaStreamBeginCapture,        same, ptsz) \
  X(cudaStreamEndCapture,          same, ptsz) \
  X(cudaStreamIsCapturing,         same, ptsz) \
  X(cudaStreamGetCaptureInfo,      v3,   ptsz) \
  X(cudaStreamBeginCaptureToGraph, same, ptsz) \
  X(cudaStreamUpdateCaptureDependencies, v2, ptsz) \
  X(cudaThreadExchangeStreamCaptureMode, same, plain) \
  X(cudaEventCreate,               same, plain) \
  X(cudaEventCreateWithFlags,      same, plain) \
  X(cudaEventDestroy,              same, plain) \
  X(cudaEventRecord,               same, ptsz) \
  X(cudaEventRecordWithFlags,      same, ptsz) \
  X(cudaEventQuery,                same, plain) \
  X(cudaEventSynchronize,          same, plain) \
  X(cudaEventElapsedTime,          v2,   plain) \
  X(cudaIpcGetEventHandle,         same, plain) \
  X(cudaIpcOpenEventHandle,        same, plain) \
  X(cudaIpcGetMemHandle,           same, plain) \
  X(cudaIpcOpenMemHandle,          same, plain) \
  X(cudaIpcCloseMemHandle,         same, plain) \
  X(cudaMalloc,                    same, plain) \
  X(cudaMallocPitch,               same, plain) \
  X(cudaMalloc3D,                  same, plain) \
  X(cudaMallocManaged,             same, plain) \
  X(cudaMallocHost,                same, plain) \
  X(cudaHostAlloc,                 same, plain) \
  X(cudaHostRegister,              same, plain) \
  X(cudaHostUnregister,            same, plain) \
  X(cudaHostGetDevicePointer,      same, plain) \
  X(cudaHostGetFlags,              same, plain) \
  X(cudaFree,                      same, plain) \
  X(cudaFreeHost,                  same, plain) \
  X(cudaMemGetInfo,                same, plain) \
  X(cudaPointerGetAttributes,      none, plain) \
  X(cudaMemPrefetchAsync,          v2,   ptsz) \
  X(cudaMemPrefetchBatchAsync,     none, ptsz) \
  X(cudaMemAdvise,                 v2,   plain) \
  X(cudaMemRangeGetAttribute,      same, plain) \
  X(cudaMemRangeGetAttributes,     same, plain) \
  X(cudaMemGetDefaultMemPool,      none, plain) \
  X(cudaMemGetMemPool,             none, plain) \
  X(cudaMemSetMemPool,             none, plain) \
  X(cudaMallocAsync,               same, ptsz) \
  X(cudaMallocFromPoolAsync,       same, ptsz) \
  X(cudaFreeAsync,                 same, ptsz) \
  X(cudaMemPoolCreate,             same, plain) \
  X(cudaMemPoolDestroy,            same, plain) \
  X(cudaMemPoolSetAttribute,       same, plain) \
  X(cudaMemPoolGetAttribute,       same, plain) \
  X(cudaMemPoolSetAccess,          same, plain) \
  X(cudaMemPoolGetAccess,          same, plain) \
  X(cudaMemPoolTrimTo,             same, plain) \
  X(cudaMemPoolExportToShareableHandle, same, plain) \
  X(cudaMemPoolImportFromShareableHandle, same, plain) \
  X(cudaMemPoolExportPointer,      same, plain) \
  X(cudaMemPoolImportPointer,      same, plain) \
  X(cudaMemcpy,                    same, ptds) \
  X(cudaMemcpyAsync,               same, ptsz) \
  X(cudaMemcpyPeer,                same, plain) \
  X(cudaMemcpyPeerAsync,           same, plain) \
  X(cudaMemcpy2D,                  same, ptds) \
  X(cudaMemcpy2DAsync,             same, ptsz) \
  X(cudaMemcpy3D,                  same, ptds) \
  X(cudaMemcpy3DAsync,             same, ptsz) \
  X(cudaMemcpy3DPeer,              same, ptds) \
  X(cudaMemcpy3DPeerAsync,         same, ptsz) \
  X(cudaMemcpyBatchAsync,          none, ptsz) \
  X(cudaMemcpy3DBatchAsync,        none, ptsz) \
  X(cudaMemcpyWithAttributesAsync, none, ptsz) \
  X(cudaMemcpy3DWithAttributesAsync, none, ptsz) \
  X(cudaMemcpyToSymbol,            same, ptds) \
  X(cudaMemcpyFromSymbol,          same, ptds) \
  X(cudaMemcpyToSymbolAsync,       same, ptsz) \
  X(cudaMemcpyFromSymbolAsync,     same, ptsz) \
  X(cudaGetSymbolAddress,          same, plain) \
  X(cudaGetSymbolSize,             same, plain) \
  X(cudaMemset,                    same, ptds) \
  X(cudaMemsetAsync,               same, ptsz) \
  X(cudaMemset2D,                  same, ptds) \
  X(cudaMemset2DAsync,             same, ptsz) \
  X(cudaMemset3D,                  same, ptds) \
  X(cudaMemset3DAsync,             same, ptsz) \
  X(cudaGraphCreate,               same, plain) \
  X(cudaGraphDestroy,              same, plain) \
  X(cudaGraphClone,                same, plain) \
  X(cudaGraphAddEmptyNode,         same, plain) \
  X(cudaGraphAddChildGraphNode,    same, plain) \
  X(cudaGraphChildGraphNodeGetGraph, same, plain) \
  X(cudaGraphNodeFindInClone,      same, plain) \
  X(cudaGraphGetNodes,             same, plain) \
  X(cudaGraphGetRootNodes,         same, plain) \
  X(cudaGraphGetEdges,             v2,   plain) \
  X(cudaGraphNodeGetType,          same, plain) \
  X(cudaGraphNodeGetDependencies,  v2,   plain) \
  X(cudaGraphNodeGetDependentNodes, v2,  plain) \
  X(cudaGraphAddDependencies,      v2,   plain) \
  X(cudaGraphRemoveDependencies,   v2,   plain) \
  X(cudaGraphDestroyNode,          same, plain) \
  X(cudaGraphAddMemcpyNode1D,      same, plain) \
  X(cudaGraphAddMemsetNode,        same, plain) \
  X(cudaGraphAddHostNode,          same, plain) \
  X(cudaGraphAddEventRecordNode,   same, plain) \
  X(cudaGraphAddEventWaitNode,     same, plain) \
  X(cudaGraphAddMemcpyNode, same, plain) \
  X(cudaGraphMemcpyNodeGetParams, same, plain) \
  X(cudaGraphMemcpyNodeSetParams, same, plain) \
  X(cudaGraphMemcpyNodeSetParams1D, same, plain) \
  X(cudaGraphExecMemcpyNodeSetParams, same, plain) \
  X(cudaGraphExecMemcpyNodeSetParams1D, same, plain) \
  X(cudaGraphAddMemcpyNodeToSymbol, same, plain) \
  X(cudaGraphAddMemcpyNodeFromSymbol, same, plain) \
  X(cudaGraphMemcpyNodeSetParamsToSymbol, same, plain) \
  X(cudaGraphMemcpyNodeSetParamsFromSymbol, same, plain) \
  X(cudaGraphExecMemcpyNodeSetParamsToSymbol, same, plain) \
  X(cudaGraphExecMemcpyNodeSetParamsFromSymbol, same, plain) \
  X(cudaGraphAddKernelNode, same, plain) \
  X(cudaGraphKernelNodeGetParams, same, plain) \
  X(cudaGraphKernelNodeSetParams, same, plain) \
  X(cudaGraphExecKernelNodeSetParams, same, plain) \
  X(cudaGraphKernelNodeGetAttribute, same, plain) \
  X(cudaGraphKernelNodeSetAttribute, same, plain) \
  X(cudaGraphKernelNodeCopyAttributes, same, plain) \
  X(cudaGraphMemsetNodeGetParams, same, plain) \
  X(cudaGraphMemsetNodeSetParams, same, plain) \
  X(cudaGraphExecMemsetNodeSetParams, same, plain) \
  X(cudaGraphHostNodeGetParams, same, plain) \
  X(cudaGraphHostNodeSetParams, same, plain) \
  X(cudaGraphExecHostNodeSetParams, same, plain) \
  X(cudaGraphEventRecordNodeGetEvent, same, plain) \
  X(cudaGraphEventRecordNodeSetEvent, same, plain) \
  X(cudaGraphExecEventRecordNodeSetEvent, same, plain) \
  X(cudaGraphEventWaitNodeGetEvent, same, plain) \
  X(cudaGraphEventWaitNodeSetEvent, same, plain) \
  X(cudaGraphExecEventWaitNodeSetEvent, same, plain) \
  X(cudaGraphAddMemAllocNode, same, plain) \
  X(cudaGraphMemAllocNodeGetParams, same, plain) \
  X(cudaGraphAddMemFreeNode, same, plain) \
  X(cudaGraphMemFreeNodeGetParams, same, plain) \
  X(cudaGraphExecChildGraphNodeSetParams, same, plain) \
  X(cudaGraphNodeSetEnabled, same, plain) \
  X(cudaGraphNodeGetEnabled, same, plain) \
  X(cudaGraphNodeSetParams, same, plain) \
  X(cudaGraphExecNodeSetParams, same, plain) \
  X(cudaGraphExecGetFlags, same, plain) \
  X(cudaGraphAddNode, v2, plain) \
  X(cudaGraphInstantiate,          same, plain) \
  X(cudaGraphInstantiateWithFlags, same, plain) \
  X(cudaGraphInstantiateWithParams, same, ptsz) \
  X(cudaGraphUpload,               same, ptsz) \
  X(cudaGraphLaunch,               same, ptsz) \
  X(cudaGraphExecDestroy,          same, plain) \
  X(cudaGraphExecUpdate,           same, plain) \
  X(cudaGraphDebugDotPrint,        same, plain) \
  X(cudaDeviceGetGraphMemAttribute, same, plain) \
  X(cudaDeviceSetGraphMemAttribute, same, plain) \
  X(cudaDeviceGraphMemTrim,        same, plain) \
  X(cudaUserObjectCreate,          same, plain) \
  X(cudaUserObjectRetain,          same, plain) \
  X(cudaUserObjectRelease,         same, plain) \
  X(cudaGraphRetainUserObject,     same, plain) \
  X(cudaGraphReleaseUserObject,    same, plain) \
  X(cudaCreateChannelDesc,         same, plain) \
  X(cudaFuncGetAttributes,         same, plain) \
  X(cudaFuncSetAttribute,          same, plain) \
  X(cudaFuncSetCacheConfig,        same, plain) \
  X(cudaFuncGetName,               same, plain) \
  X(cudaGetFuncBySymbol,           same, plain) \
  X(cudaGetKernel,                 same, plain) \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, same, plain) \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, same, plain) \
  X(cudaOccupancyAvailableDynamicSMemPerBlock, same, plain) \
  X(cudaOccupancyMaxActiveClusters, same, plain) \
  X(cudaOccupancyMaxPotentialClusterSize, same, plain) \
  X(cudaLibraryLoadData,           same, plain) \
  X(cudaLibraryLoadFromFile,       same, plain) \
  X(cudaLibraryUnload,             same, plain) \
  X(cudaLibraryGetKernel,          same, plain) \
  X(cudaLibraryGetGlobal,          same, plain) \
  X(cudaLibraryGetManaged,         same, plain) \
  X(cudaLibraryGetKernelCount,     same, plain) \
  X(cudaLibraryEnumerateKernels,   same, plain) \
  X(cudaLaunchKernel,              same, ptsz) \
  X(cudaLaunchKernelExC,           same, ptsz) \
  X(cudaLaunchCooperativeKernel,   same, ptsz) \
  X(__cudaRegisterFatBinary,       same, plain) \
  X(__cudaRegisterFatBinaryEnd,    same, plain) \
  X(__cudaUnregisterFatBinary,     same, plain) \
  X(__cudaRegisterFunction,        same, plain) \
  X(__cudaRegisterVar,             same, plain) \
  X(__cudaRegisterManagedVar,      same, plain) \
  X(__cudaInitModule,              same, plain) \
  X(__cudaPushCallConfiguration,   same, plain) \
  X(__cudaPopCallConfiguration,    same, plain) \
  X(__cudaGetKernel,               same, plain) \
  X(__cudaLaunchKernel,            same, ptsz)

#define BERTH_CUDART_12_FUNCTIONS(X) \
  X(cudaGetDeviceProperties,       GetDeviceProperties11, plain) \
  X(cudaGetDeviceProperties_v2,    GetDeviceProperties12, plain) \
  X(cudaPointerGetAttributes,      PointerGetAttributes12, plain) \
  X(cudaEventElapsedTime,          EventElapsedTime12, plain) \
  X(cudaMemPrefetchAsync,          MemPrefetchAsync12, ptsz) \
  X(cudaMemAdvise,                 MemAdvise12, plain) \
  X(cudaMemcpyBatchAsync,          MemcpyBatchAsync12, ptsz) \
  X(cudaMemcpy3DBatchAsync,        Memcpy3DBatchAsync12, ptsz) \
  X(cudaStreamGetCaptureInfo,      StreamGetCaptureInfo10, ptsz) \
  X(cudaStreamGetCaptureInfo_v2,   StreamGetCaptureInfo12, ptsz) \
  X(cudaStreamUpdateCaptureDependencies, StreamUpdateCaptureDependencies12, ptsz) \
  X(cudaGraphGetEdges,             GraphGetEdges12, plain) \
  X(cudaGraphNodeGetDependencies,  GraphNodeGetDependencies12, plain) \
  X(cudaGraphNodeGetDependentNodes, GraphNodeGetDependencies12, plain) \
  X(cudaGraphAddDependencies,      GraphAddDependencies12, plain) \
  X(cudaGraphRemoveDependencies,   GraphAddDependencies12, plain) \
  X(cudaGraphAddNode,              GraphAddNode12, plain) \
  X(cudaThreadExit,                ThreadCall, plain) \
  X(cudaThreadSynchronize,         ThreadCall, plain) \
  X(cudaThreadGetLimit,            ThreadGetLimit, plain) \
  X(cudaThreadSetLimit,            ThreadSetLimit, plain) \
  X(cudaThreadGetCacheConfig,      ThreadGetCacheConfig, plain) \
  X(cudaThreadSetCacheConfig,      ThreadSetCacheConfig, plain)
// clang-format on

namespace berth::cudart {

// Deprecated functions are exported, too.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern "C" {
// A definition with other parameters conflicts with these declarations, so the ABI is that of the
// header.
#define BERTH_CUDART_DECLARE(symbol, in12, null_stream) decltype(::symbol) berth_cudart_##symbol;
BERTH_CUDART_FUNCTIONS(BERTH_CUDART_DECLARE)
#undef BERTH_CUDART_DECLARE
#define BERTH_CUDART_DECLARE(symbol, type, null_stream) older_abi::type berth_cudart_12_##symbol;
BERTH_CUDART_12_FUNCTIONS(BERTH_CUDART_DECLARE)
#undef BERTH_CUDART_DECLARE
}
#pragma GCC diagnostic pop

}  // namespace berth::cudart
