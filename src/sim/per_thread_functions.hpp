// SPDX-License-Identifier: Apache-2.0
// The functions that have a second form, for programs compiled with --default-stream per-thread: in
// it the null stream is the calling thread's default stream. Whoever adds a function with a stream
// parameter, or one that works on the null stream, adds its form here:
//
//   X(symbol, name)
//
// symbol    as in the list of functions
// name      what cuda.h makes of it there: with _ptsz where it takes a stream, _ptds where it does
//           not
#pragma once

#include "sim/functions.hpp"

// clang-format off
#define BERTH_SIM_PER_THREAD_FUNCTIONS(X) \
  X(cuStreamQuery,           cuStreamQuery_ptsz) \
  X(cuStreamSynchronize,     cuStreamSynchronize_ptsz) \
  X(cuStreamWaitEvent,       cuStreamWaitEvent_ptsz) \
  X(cuStreamGetFlags,        cuStreamGetFlags_ptsz) \
  X(cuStreamGetPriority,     cuStreamGetPriority_ptsz) \
  X(cuStreamGetId,           cuStreamGetId_ptsz) \
  X(cuStreamGetCtx,          cuStreamGetCtx_ptsz) \
  X(cuStreamGetDevice,       cuStreamGetDevice_ptsz) \
  X(cuStreamGetAttribute,    cuStreamGetAttribute_ptsz) \
  X(cuStreamSetAttribute,    cuStreamSetAttribute_ptsz) \
  X(cuStreamCopyAttributes,  cuStreamCopyAttributes_ptsz) \
  X(cuStreamAttachMemAsync,  cuStreamAttachMemAsync_ptsz) \
  X(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz) \
  X(cuLaunchHostFunc,        cuLaunchHostFunc_ptsz) \
  X(cuStreamAddCallback,     cuStreamAddCallback_ptsz) \
  X(cuLaunchKernel,          cuLaunchKernel_ptsz) \
  X(cuLaunchKernelEx,        cuLaunchKernelEx_ptsz) \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz) \
  X(cuEventRecord,           cuEventRecord_ptsz) \
  X(cuMemcpyAsync,           cuMemcpyAsync_ptsz) \
  X(cuMemcpyPeerAsync,       cuMemcpyPeerAsync_ptsz) \
  X(cuMemcpy,                cuMemcpy_ptds) \
  X(cuMemcpyPeer,            cuMemcpyPeer_ptds) \
  X(cuMemcpyHtoD,            cuMemcpyHtoD_v2_ptds) \
  X(cuMemcpyDtoH,            cuMemcpyDtoH_v2_ptds) \
  X(cuMemcpyDtoD,            cuMemcpyDtoD_v2_ptds) \
  X(cuMemcpyHtoDAsync,       cuMemcpyHtoDAsync_v2_ptsz) \
  X(cuMemcpyDtoHAsync,       cuMemcpyDtoHAsync_v2_ptsz) \
  X(cuMemcpyDtoDAsync,       cuMemcpyDtoDAsync_v2_ptsz) \
  X(cuMemcpy2D,              cuMemcpy2D_v2_ptds) \
  X(cuMemcpy2DUnaligned,     cuMemcpy2DUnaligned_v2_ptds) \
  X(cuMemcpy2DAsync,         cuMemcpy2DAsync_v2_ptsz) \
  X(cuMemcpy3D,              cuMemcpy3D_v2_ptds) \
  X(cuMemcpy3DAsync,         cuMemcpy3DAsync_v2_ptsz) \
  X(cuMemcpy3DPeer,          cuMemcpy3DPeer_ptds) \
  X(cuMemcpy3DPeerAsync,     cuMemcpy3DPeerAsync_ptsz) \
  X(cuMemcpyBatchAsync,      cuMemcpyBatchAsync_v2_ptsz) \
  X(cuMemcpy3DBatchAsync,    cuMemcpy3DBatchAsync_v2_ptsz) \
  X(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz) \
  X(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz) \
  X(cuMemsetD8,              cuMemsetD8_v2_ptds) \
  X(cuMemsetD16,             cuMemsetD16_v2_ptds) \
  X(cuMemsetD32,             cuMemsetD32_v2_ptds) \
  X(cuMemsetD2D8,            cuMemsetD2D8_v2_ptds) \
  X(cuMemsetD2D16,           cuMemsetD2D16_v2_ptds) \
  X(cuMemsetD2D32,           cuMemsetD2D32_v2_ptds) \
  X(cuMemsetD8Async,         cuMemsetD8Async_ptsz) \
  X(cuMemsetD16Async,        cuMemsetD16Async_ptsz) \
  X(cuMemsetD32Async,        cuMemsetD32Async_ptsz) \
  X(cuMemsetD2D8Async,       cuMemsetD2D8Async_ptsz) \
  X(cuMemsetD2D16Async,      cuMemsetD2D16Async_ptsz) \
  X(cuMemsetD2D32Async,      cuMemsetD2D32Async_ptsz) \
  X(cuEventRecordWithFlags,  cuEventRecordWithFlags_ptsz) \
  X(cuStreamBeginCapture,    cuStreamBeginCapture_v2_ptsz) \
  X(cuStreamEndCapture,      cuStreamEndCapture_ptsz) \
  X(cuStreamIsCapturing,     cuStreamIsCapturing_ptsz) \
  X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz) \
  X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2_ptsz) \
  X(cuStreamGetCaptureInfo,  cuStreamGetCaptureInfo_v3_ptsz) \
  X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz) \
  X(cuGraphUpload,           cuGraphUpload_ptsz) \
  X(cuGraphLaunch,           cuGraphLaunch_ptsz) \
  X(cuMemPrefetchAsync,      cuMemPrefetchAsync_v2_ptsz) \
  X(cuMemAllocAsync,         cuMemAllocAsync_ptsz) \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz) \
  X(cuMemFreeAsync,          cuMemFreeAsync_ptsz) \
  X(cuStreamWaitValue32,     cuStreamWaitValue32_v2_ptsz) \
  X(cuStreamWaitValue64,     cuStreamWaitValue64_v2_ptsz) \
  X(cuStreamWriteValue32,    cuStreamWriteValue32_v2_ptsz) \
  X(cuStreamWriteValue64,    cuStreamWriteValue64_v2_ptsz) \
  X(cuStreamBatchMemOp,      cuStreamBatchMemOp_v2_ptsz)
// clang-format on

namespace berth::sim {

extern "C" {
// Pointers, so that the functions behind them can be made from the plain ones.
#define BERTH_SIM_DECLARE_PER_THREAD(symbol, name) \
  extern BERTH_API decltype(::symbol)* const berth_sim_##name;
BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_SIM_DECLARE_PER_THREAD)
#undef BERTH_SIM_DECLARE_PER_THREAD
extern BERTH_API decltype(&berth_sim_cuMemPrefetchAsync_v1) const berth_sim_cuMemPrefetchAsync_ptsz;
}

/// The CUDA version that brought these forms; those of younger functions are as old as they.
inline constexpr int kPerThreadFormsSince = 7000;

}  // namespace berth::sim
