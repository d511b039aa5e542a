// SPDX-License-Identifier: Apache-2.0
// How the fuzzer calls the functions of the CUDA driver: a row for each in sim/functions.hpp;
// those of captures and graphs are in graph_rows.hpp. In each list of values the first is the
// ordinary one.
#pragma once

#include "fuzz/batch_parameters.hpp"
#include "fuzz/call.hpp"
#include "fuzz/copy_parameters.hpp"
#include "fuzz/launch_parameters.hpp"
#include "fuzz/memory_parameters.hpp"
#include "fuzz/node_parameters.hpp"
#include "fuzz/other_parameters.hpp"

namespace berth::fuzz {
// clang-format off

inline constexpr Number zero_flags = number(0);
inline constexpr Number fill_count = number(16, 1, 100, 0, 512);
inline constexpr Number fill_pitch = number(512, 64, 0, 3, 1 << 16);
inline constexpr Number fill_rows = number(2, 1, 8, 0);
inline constexpr Number reference_count = number(1, 2, 0, 3);
inline constexpr Number device = number(0, 1, 0, 2);

// Initialization, names, devices.
BERTH_FUZZ(cuInit, zero_flags)
BERTH_FUZZ(cuDriverGetVersion, out)
BERTH_FUZZ(cuGetErrorName, below(1024), uncertain_out)
BERTH_FUZZ(cuGetErrorString, below(1024), uncertain_out)
BERTH_FUZZ(cuGetExportTable, out, uuid)
BERTH_FUZZ(cuModuleGetLoadingMode, out)
BERTH_FUZZ(cuGetProcAddress, text_in, uncertain_out, number(13000, 12000, 11030, 7000), number(0,
           1, 2))
BERTH_FUZZ(cuGetProcAddress_v2, text_in, out, number(13000, 12000, 11030, 7000), number(0, 1, 2),
           out)
BERTH_FUZZ(cuDeviceGetCount, out)
BERTH_FUZZ(cuDeviceGet, out, device)
BERTH_FUZZ(cuDeviceGetName, text_out, signed_capacity, device)
BERTH_FUZZ(cuDeviceGetUuid, out, device)
BERTH_FUZZ(cuDeviceGetPCIBusId, text_out, signed_capacity, device)
BERTH_FUZZ(cuDeviceTotalMem, out, device)
BERTH_FUZZ(cuDeviceGetAttribute, out, below(256), device)
BERTH_FUZZ(cuDeviceGetProperties, out, device)
BERTH_FUZZ(cuDeviceComputeCapability, out, out, device)
BERTH_FUZZ(cuDeviceGetExecAffinitySupport, out, enumerator(0, 1), device)
BERTH_FUZZ(cuDeviceCanAccessPeer, out, device, device)
BERTH_FUZZ(cuDeviceGetByPCIBusId, out, text_in)
BERTH_FUZZ(cuDeviceGetP2PAttribute, out, enumerator(1, 2, 3, 4, 5, 0, 6), device, device)

// Contexts.
BERTH_FUZZ(cuDevicePrimaryCtxRetain, made(Kind::context), device)
BERTH_FUZZ(cuDevicePrimaryCtxRelease, device)
BERTH_FUZZ(cuDevicePrimaryCtxGetState, device, out, out)
BERTH_FUZZ(cuCtxPushCurrent, handle(Kind::context))
BERTH_FUZZ(cuCtxPopCurrent, out)
BERTH_FUZZ(cuCtxGetCurrent, out)
BERTH_FUZZ(cuCtxSetCurrent, handle(Kind::context))
BERTH_FUZZ(cuCtxGetDevice, out)
BERTH_FUZZ(cuCtxSetFlags, number(0, 1, 2, 4, 8, 0x80))
BERTH_FUZZ(cuCtxGetLimit, out, enumerator(0, 1, 2, 3, 4, 5, 6, 10))
BERTH_FUZZ(cuCtxSetLimit, enumerator(0, 1, 2, 3, 4, 5, 6, 10), size)
BERTH_FUZZ(cuCtxGetCacheConfig, out)
BERTH_FUZZ(cuCtxSetCacheConfig, enumerator(0, 1, 2, 3, 4))
BERTH_FUZZ(cuCtxResetPersistingL2Cache)
BERTH_FUZZ(cuFlushGPUDirectRDMAWrites, enumerator(0, 1), enumerator(100, 200, 0))
BERTH_FUZZ(cuProfilerStart)
BERTH_FUZZ(cuProfilerStop)
BERTH_FUZZ(cuCtxSynchronize)
BERTH_FUZZ(cuCtxGetStreamPriorityRange, out, out)
BERTH_FUZZ(cuCtxEnablePeerAccess, handle(Kind::context), zero_flags)
BERTH_FUZZ(cuDevicePrimaryCtxReset, device)
BERTH_FUZZ(cuDevicePrimaryCtxSetFlags, device, number(0, 1, 2, 4, 8, 0x80))
BERTH_FUZZ(cuCtxCreate, made(Kind::context), below(1), number(0, 1, 2, 4, 8, 0x80), device)
BERTH_FUZZ(cuCtxDestroy, ending(Kind::context))
BERTH_FUZZ(cuCtxGetApiVersion, handle(Kind::context), out)
BERTH_FUZZ(cuCtxGetFlags, out)
BERTH_FUZZ(cuCtxGetId, handle(Kind::context), out)
BERTH_FUZZ(cuCtxDisablePeerAccess, handle(Kind::context))

// Memory.
BERTH_FUZZ(cuMemGetInfo, out, out)
BERTH_FUZZ(cuMemAlloc, made_memory(Kind::memory), size)
BERTH_FUZZ(cuMemFree, ending_address(Kind::memory))
BERTH_FUZZ(cuMemHostAlloc, made_memory(Kind::pinned), size, number(0, 1, 2, 4, 7))
BERTH_FUZZ(cuMemFreeHost, ending_address(Kind::pinned))
BERTH_FUZZ(cuMemHostRegister, host_address, size, number(0, 1, 2, 4, 8))
BERTH_FUZZ(cuMemHostUnregister, ending_address(Kind::registration))
BERTH_FUZZ(cuPointerSetAttribute, out, below(32), address(Kind::memory))
BERTH_FUZZ(cuPointerGetAttribute, out, below(32), address(Kind::memory))
BERTH_FUZZ(cuMemAllocHost, made_memory(Kind::pinned), size)
BERTH_FUZZ(cuMemAllocManaged, made_memory(Kind::memory, true), size, number(1, 2, 4, 0))
BERTH_FUZZ(cuMemPrefetchAsync, address(Kind::memory), size, location_value, zero_flags,
           handle(Kind::stream))
BERTH_FUZZ(cuMemPrefetchAsync_v1, address(Kind::memory), size, number(0, 1, -1, 7),
           handle(Kind::stream))
BERTH_FUZZ(cuMemAdvise, address(Kind::memory), size, enumerator(1, 2, 3, 4, 5, 6, 0, 7),
           location_value)
BERTH_FUZZ(cuMemAdvise_v1, address(Kind::memory), size, enumerator(1, 2, 3, 4, 5, 6, 0, 7),
           number(0, 1, -1, 7))
BERTH_FUZZ(cuMemPrefetchBatchAsync, destinations, sizes, copy_count, locations, firsts, copy_count,
           zero_flags, handle(Kind::stream))
BERTH_FUZZ(cuStreamAttachMemAsync, handle(Kind::stream), address(Kind::memory), number(0, 100),
           number(1, 2, 4, 0))
BERTH_FUZZ(cuMemRangeGetAttribute, out, number(4, 8, 0, 3), enumerator(1, 2, 3, 4, 5, 8, 0, 9),
           address(Kind::memory), size)
BERTH_FUZZ(cuMemRangeGetAttributes, range_data, range_sizes, range_attributes, number(2, 1, 0),
           address(Kind::memory), size)
BERTH_FUZZ(cuMemAllocPitch, made_memory(Kind::memory), out, size, number(1, 2, 3, 0),
           number(4, 8, 16, 3))
BERTH_FUZZ(cuMemHostGetDevicePointer, out, address(Kind::pinned), zero_flags)
BERTH_FUZZ(cuMemHostGetFlags, out, address(Kind::pinned))
BERTH_FUZZ(cuMemGetAddressRange, out, out, address(Kind::memory))
BERTH_FUZZ(cuPointerGetAttributes, copy_count, pointer_attributes, attribute_places,
           address(Kind::memory))

// Virtual memory management.
BERTH_FUZZ(cuMemGetAllocationGranularity, out, allocation_properties, enumerator(0, 1))
BERTH_FUZZ(cuMemAddressReserve, made_memory(Kind::reservation), size,
           number(0, 4096, 1 << 21, 3, 1ULL << 46), address(Kind::reservation), zero_flags)
BERTH_FUZZ(cuMemAddressFree, ending_address(Kind::reservation), size)
BERTH_FUZZ(cuMemCreate, made_memory(Kind::physical), size, allocation_properties, zero_flags)
BERTH_FUZZ(cuMemRelease, ending(Kind::physical))
BERTH_FUZZ(cuMemMap, place_in(Kind::reservation, Kind::mapping), size, zero_flags,
           handle(Kind::physical), zero_flags)
BERTH_FUZZ(cuMemUnmap, ending_address(Kind::mapping), size)
BERTH_FUZZ(cuMemSetAccess, address(Kind::mapping), size, access_list, capacity)

// What is said of it, and memory between processes.
BERTH_FUZZ(cuMemGetAccess, out, location, address(Kind::mapping))
BERTH_FUZZ(cuMemExportToShareableHandle, descriptor_out, handle(Kind::physical),
           enumerator(1, 0, 2, 4, 8), zero_flags)
BERTH_FUZZ(cuMemImportFromShareableHandle, made(Kind::physical), handle(Kind::descriptor),
           enumerator(1, 0, 2, 4, 8))
BERTH_FUZZ(cuMemRetainAllocationHandle, made(Kind::physical), address(Kind::mapping))
BERTH_FUZZ(cuMemGetAllocationPropertiesFromHandle, out, handle(Kind::physical))

BERTH_FUZZ(cuIpcGetEventHandle, out, handle(Kind::event))
BERTH_FUZZ(cuIpcOpenEventHandle, made(Kind::event), ipc_event)
BERTH_FUZZ(cuIpcGetMemHandle, out, address(Kind::memory))
BERTH_FUZZ(cuIpcOpenMemHandle, made_memory(Kind::memory), ipc_memory, number(1, 0))
BERTH_FUZZ(cuIpcCloseMemHandle, ending_address(Kind::memory))

// Memory pools.
BERTH_FUZZ(cuMemAllocAsync, made_memory(Kind::memory), size, handle(Kind::stream))
BERTH_FUZZ(cuMemAllocFromPoolAsync, made_memory(Kind::memory), size, handle(Kind::pool),
           handle(Kind::stream))
BERTH_FUZZ(cuMemFreeAsync, ending_address(Kind::memory), handle(Kind::stream))
BERTH_FUZZ(cuMemPoolCreate, made(Kind::pool), pool_properties)
BERTH_FUZZ(cuMemPoolDestroy, ending(Kind::pool))
BERTH_FUZZ(cuMemPoolSetAttribute, handle(Kind::pool), enumerator(4, 1, 2, 3, 5, 6, 7, 0), value_in)
BERTH_FUZZ(cuMemPoolGetAttribute, handle(Kind::pool), enumerator(4, 1, 2, 3, 5, 6, 7, 0), out)
BERTH_FUZZ(cuMemPoolTrimTo, handle(Kind::pool), size)
BERTH_FUZZ(cuMemPoolSetAccess, handle(Kind::pool), access_list, capacity)
BERTH_FUZZ(cuMemPoolGetAccess, out, handle(Kind::pool), location)
BERTH_FUZZ(cuDeviceGetDefaultMemPool, made(Kind::pool), device)
BERTH_FUZZ(cuDeviceGetMemPool, made(Kind::pool), device)
BERTH_FUZZ(cuDeviceSetMemPool, device, handle(Kind::pool))
BERTH_FUZZ(cuMemGetDefaultMemPool, made(Kind::pool), location, enumerator(1, 2, 0))
BERTH_FUZZ(cuMemGetMemPool, made(Kind::pool), location, enumerator(1, 2, 0))
BERTH_FUZZ(cuMemSetMemPool, location, enumerator(1, 2, 0), handle(Kind::pool))

// Values of memory, waited for and written.
BERTH_FUZZ(cuStreamWaitValue32, handle(Kind::stream), address(Kind::memory), number(0, 1, 7),
           wait_flags)
BERTH_FUZZ(cuStreamWaitValue64, handle(Kind::stream), address(Kind::memory), number(0, 1, 7),
           wait_flags)
BERTH_FUZZ(cuStreamWriteValue32, handle(Kind::stream), address(Kind::memory), number(1, 0, 7),
           number(0, 1))
BERTH_FUZZ(cuStreamWriteValue64, handle(Kind::stream), address(Kind::memory), number(1, 0, 7),
           number(0, 1))
BERTH_FUZZ(cuStreamBatchMemOp, handle(Kind::stream), batch_count, batch, zero_flags)

// Streams and events.
BERTH_FUZZ(cuStreamCreateWithPriority, made(Kind::stream), number(1, 0, 2), number(0, -1, -5, 7))
BERTH_FUZZ(cuStreamCreate, made(Kind::stream), number(1, 0, 2))
BERTH_FUZZ(cuStreamGetFlags, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamGetPriority, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamGetId, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamGetCtx, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamGetDevice, handle(Kind::stream), out)
BERTH_FUZZ(cuStreamAddCallback, handle(Kind::stream), stream_callback, number(0), zero_flags)
BERTH_FUZZ(cuStreamGetAttribute, handle(Kind::stream), stream_attribute_id, out)
BERTH_FUZZ(cuStreamSetAttribute, handle(Kind::stream), stream_attribute_id, stream_attribute)
BERTH_FUZZ(cuStreamCopyAttributes, handle(Kind::stream), handle(Kind::stream))
BERTH_FUZZ(cuStreamDestroy, ending(Kind::stream))
BERTH_FUZZ(cuStreamQuery, handle(Kind::stream))
BERTH_FUZZ(cuStreamSynchronize, handle(Kind::stream))
BERTH_FUZZ(cuStreamWaitEvent, handle(Kind::stream), handle(Kind::event), number(0, 1))
BERTH_FUZZ(cuLaunchHostFunc, handle(Kind::stream), host_function, number(0))
BERTH_FUZZ(cuModuleLoad, made(Kind::module), text_in)
BERTH_FUZZ(cuModuleLoadData, made(Kind::module), device_code)
BERTH_FUZZ(cuModuleLoadDataEx, made(Kind::module), device_code, number(0), number(0), number(0))
BERTH_FUZZ(cuModuleLoadFatBinary, made(Kind::module), device_code)
BERTH_FUZZ(cuModuleUnload, ending(Kind::module))
BERTH_FUZZ(cuModuleGetFunction, made(Kind::function), handle(Kind::module), kernel_name)
BERTH_FUZZ(cuModuleGetGlobal, out, out, handle(Kind::module), kernel_name)
BERTH_FUZZ(cuFuncGetModule, out, handle(Kind::function))
BERTH_FUZZ(cuFuncGetName, uncertain_out, handle(Kind::function))
BERTH_FUZZ(cuFuncGetAttribute, out, below(20), handle(Kind::function))
BERTH_FUZZ(cuFuncSetAttribute, handle(Kind::function), below(20), number(0, -1, 48 << 10))
BERTH_FUZZ(cuFuncSetCacheConfig, handle(Kind::function), below(6))
BERTH_FUZZ(cuOccupancyMaxActiveBlocksPerMultiprocessor, out, handle(Kind::function),
           number(128, 0, -1, 1025), number(0, 48 << 10, -1))
BERTH_FUZZ(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, out, handle(Kind::function),
           number(128, 0, -1, 1025), number(0, 48 << 10, -1), number(0, 1, 2))
BERTH_FUZZ(cuOccupancyMaxPotentialBlockSize, out, out, handle(Kind::function), number(0),
           number(0, 48 << 10, -1), number(0, 100, -1, 2048))
BERTH_FUZZ(cuOccupancyMaxPotentialBlockSizeWithFlags, out, out, handle(Kind::function), number(0),
           number(0, 48 << 10, -1), number(0, 100, -1, 2048), number(0, 1, 2))
BERTH_FUZZ(cuOccupancyAvailableDynamicSMemPerBlock, out, handle(Kind::function), number(1, 0, 64),
           number(128, 0, -1, 1025))
BERTH_FUZZ(cuOccupancyMaxActiveClusters, out, handle(Kind::function), launch_configuration)
BERTH_FUZZ(cuOccupancyMaxPotentialClusterSize, out, handle(Kind::function), launch_configuration)
BERTH_FUZZ(cuLibraryLoadData, made(Kind::module), device_code, number(0), number(0), number(0),
           number(0), number(0), number(0))
BERTH_FUZZ(cuLibraryLoadFromFile, made(Kind::module), text_in, number(0), number(0), number(0),
           number(0), number(0), number(0))
BERTH_FUZZ(cuLibraryUnload, ending(Kind::module))
BERTH_FUZZ(cuLibraryGetKernel, made(Kind::function), handle(Kind::module), kernel_name)
BERTH_FUZZ(cuLibraryGetModule, out, handle(Kind::module))
BERTH_FUZZ(cuLibraryGetGlobal, out, out, handle(Kind::module), kernel_name)
BERTH_FUZZ(cuLibraryGetManaged, out, out, handle(Kind::module), kernel_name)
BERTH_FUZZ(cuKernelGetFunction, out, handle(Kind::function))
BERTH_FUZZ(cuKernelGetLibrary, out, handle(Kind::function))
BERTH_FUZZ(cuKernelGetName, uncertain_out, handle(Kind::function))
BERTH_FUZZ(cuModuleGetFunctionCount, out, handle(Kind::module))
BERTH_FUZZ(cuModuleEnumerateFunctions, array_out, enumerator(1, 0, kArrayRoom),
           handle(Kind::module))
BERTH_FUZZ(cuLibraryGetKernelCount, out, handle(Kind::module))
BERTH_FUZZ(cuLibraryEnumerateKernels, array_out, enumerator(1, 0, kArrayRoom),
           handle(Kind::module))
BERTH_FUZZ(cuFuncGetParamInfo, handle(Kind::function), number(0, 1), out, out)
BERTH_FUZZ(cuKernelGetParamInfo, handle(Kind::function), number(0, 1), out, out)
BERTH_FUZZ(cuFuncLoad, handle(Kind::function))
BERTH_FUZZ(cuFuncIsLoaded, out, handle(Kind::function))
BERTH_FUZZ(cuKernelGetAttribute, out, below(20), handle(Kind::function), device)
BERTH_FUZZ(cuKernelSetCacheConfig, handle(Kind::function), enumerator(0, 1, 2, 3, 4), device)
BERTH_FUZZ(cuKernelSetAttribute, below(20), number(0, -1), handle(Kind::function), device)
BERTH_FUZZ(cuLaunchKernel, handle(Kind::function), number(1, 0, 7), number(1, 65536), number(1, 0),
           number(1, 1024, 1025), number(1, 32), number(1, 65), number(0, 48 << 10, -1),
           handle(Kind::stream), number(0), number(0))
BERTH_FUZZ(cuLaunchCooperativeKernel, handle(Kind::function), number(1, 0, 7), number(1, 65535),
           number(1, 0), number(1, 1024, 1025), number(1, 32), number(1, 65),
           number(0, 48 << 10, -1), handle(Kind::stream), number(0))
BERTH_FUZZ(cuLaunchKernelEx, launch_configuration, handle(Kind::function), number(0), number(0))
BERTH_FUZZ(cuEventCreate, made(Kind::event), number(0, 2, 1, 6))
BERTH_FUZZ(cuEventDestroy, ending(Kind::event))
BERTH_FUZZ(cuEventRecord, handle(Kind::event), handle(Kind::stream))
BERTH_FUZZ(cuEventRecordWithFlags, handle(Kind::event), handle(Kind::stream), number(0, 1))
BERTH_FUZZ(cuEventQuery, handle(Kind::event))
BERTH_FUZZ(cuEventSynchronize, handle(Kind::event))
BERTH_FUZZ(cuEventElapsedTime, out, handle(Kind::event), handle(Kind::event))

// Work.
BERTH_FUZZ(cuMemcpyAsync, copy_address, copy_address, size, handle(Kind::stream))
BERTH_FUZZ(cuMemcpyPeerAsync, copy_address, handle(Kind::context), copy_address,
           handle(Kind::context), size, handle(Kind::stream))
BERTH_FUZZ(cuMemsetD8Async, address(Kind::memory), number(7), size, handle(Kind::stream))

// Work: copies.
BERTH_FUZZ(cuMemcpy, copy_address, copy_address, size)
BERTH_FUZZ(cuMemcpyPeer, copy_address, handle(Kind::context), copy_address, handle(Kind::context),
           size)
BERTH_FUZZ(cuMemcpyHtoD, copy_address, copy_address, size)
BERTH_FUZZ(cuMemcpyDtoH, copy_address, copy_address, size)
BERTH_FUZZ(cuMemcpyDtoD, copy_address, copy_address, size)
BERTH_FUZZ(cuMemcpyHtoDAsync, copy_address, copy_address, size, handle(Kind::stream))
BERTH_FUZZ(cuMemcpyDtoHAsync, copy_address, copy_address, size, handle(Kind::stream))
BERTH_FUZZ(cuMemcpyDtoDAsync, copy_address, copy_address, size, handle(Kind::stream))
BERTH_FUZZ(cuMemcpy2D, rectangle)
BERTH_FUZZ(cuMemcpy2DUnaligned, rectangle)
BERTH_FUZZ(cuMemcpy2DAsync, rectangle, handle(Kind::stream))
BERTH_FUZZ(cuMemcpy3D, volume)
BERTH_FUZZ(cuMemcpy3DAsync, volume, handle(Kind::stream))
BERTH_FUZZ(cuMemcpy3DPeer, volume_of_contexts)
BERTH_FUZZ(cuMemcpy3DPeerAsync, volume_of_contexts, handle(Kind::stream))
BERTH_FUZZ(cuMemcpyBatchAsync, destinations, sources, sizes, copy_count, copy_attributes, firsts,
           copy_count, handle(Kind::stream))
BERTH_FUZZ(cuMemcpyWithAttributesAsync, copy_address, copy_address, size, copy_attributes,
           handle(Kind::stream))
BERTH_FUZZ(cuMemcpy3DWithAttributesAsync, attributed_volume, zero_flags, handle(Kind::stream))
BERTH_FUZZ(cuMemcpy3DBatchAsync, below(2), attributed_volume, zero_flags, handle(Kind::stream))

// Work: fills.
BERTH_FUZZ(cuMemsetD8, address(Kind::memory), number(7), fill_count)
BERTH_FUZZ(cuMemsetD2D8, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows)
BERTH_FUZZ(cuMemsetD2D8Async, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows,
           handle(Kind::stream))
BERTH_FUZZ(cuMemsetD16, address(Kind::memory), number(7), fill_count)
BERTH_FUZZ(cuMemsetD16Async, address(Kind::memory), number(7), fill_count, handle(Kind::stream))
BERTH_FUZZ(cuMemsetD2D16, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows)
BERTH_FUZZ(cuMemsetD2D16Async, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows,
           handle(Kind::stream))
BERTH_FUZZ(cuMemsetD32, address(Kind::memory), number(7), fill_count)
BERTH_FUZZ(cuMemsetD32Async, address(Kind::memory), number(7), fill_count, handle(Kind::stream))
BERTH_FUZZ(cuMemsetD2D32, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows)
BERTH_FUZZ(cuMemsetD2D32Async, address(Kind::memory), fill_pitch, number(7), fill_count, fill_rows,
           handle(Kind::stream))

// clang-format on
}  // namespace berth::fuzz
