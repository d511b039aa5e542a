// SPDX-License-Identifier: Apache-2.0
// Every function of the CUDA driver that berth uses, in one list:
//
//   X(member, symbol, version, need)
//
// member    its name on berth::Driver and in the statistics
// symbol    NVIDIA's name without a version suffix; cuda.h maps it to the ABI below by macro
// version   the CUDA version that introduced this ABI, as cuGetProcAddress expects it
// need      required: a driver without it is refused. optional: see Driver::has().
#pragma once

#include <cuda.h>

// clang-format off
#define BERTH_DRIVER_FUNCTIONS(X) \
  X(init,                           cuInit,                        2000,  required) \
  X(driver_get_version,             cuDriverGetVersion,            2020,  required) \
  X(get_error_name,                 cuGetErrorName,                6000,  required) \
  X(get_error_string,               cuGetErrorString,              6000,  required) \
  X(device_get_count,               cuDeviceGetCount,              2000,  required) \
  X(device_get,                     cuDeviceGet,                   2000,  required) \
  X(device_get_name,                cuDeviceGetName,               2000,  required) \
  X(device_get_uuid,                cuDeviceGetUuid,               11040, required) \
  X(device_get_pci_bus_id,          cuDeviceGetPCIBusId,           4010,  required) \
  X(device_total_mem,               cuDeviceTotalMem,              3020,  required) \
  X(device_get_attribute,           cuDeviceGetAttribute,          2000,  required) \
  X(device_can_access_peer,         cuDeviceCanAccessPeer,         4000,  required) \
  X(device_get_p2p_attribute,       cuDeviceGetP2PAttribute,       8000,  optional) \
  X(primary_ctx_retain,             cuDevicePrimaryCtxRetain,      7000,  required) \
  X(primary_ctx_release,            cuDevicePrimaryCtxRelease,     11000, required) \
  X(primary_ctx_get_state,          cuDevicePrimaryCtxGetState,    7000,  required) \
  X(ctx_push_current,               cuCtxPushCurrent,              4000,  required) \
  X(ctx_pop_current,                cuCtxPopCurrent,               4000,  required) \
  X(ctx_get_current,                cuCtxGetCurrent,               4000,  required) \
  X(ctx_set_current,                cuCtxSetCurrent,               4000,  required) \
  X(ctx_get_device,                 cuCtxGetDevice,                2000,  required) \
  X(ctx_synchronize,                cuCtxSynchronize,              2000,  required) \
  X(ctx_get_stream_priority_range,  cuCtxGetStreamPriorityRange,   5050,  required) \
  X(ctx_enable_peer_access,         cuCtxEnablePeerAccess,         4000,  required) \
  X(mem_get_info,                   cuMemGetInfo,                  3020,  required) \
  X(mem_alloc,                      cuMemAlloc,                    3020,  required) \
  X(mem_free,                       cuMemFree,                     3020,  required) \
  X(mem_host_alloc,                 cuMemHostAlloc,                2020,  required) \
  X(mem_free_host,                  cuMemFreeHost,                 2000,  required) \
  X(mem_host_register,              cuMemHostRegister,             6050,  required) \
  X(mem_host_unregister,            cuMemHostUnregister,           4000,  required) \
  X(pointer_get_attribute,          cuPointerGetAttribute,         4000,  required) \
  X(pointer_get_attributes,         cuPointerGetAttributes,        7000,  required) \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020, optional) \
  X(mem_address_reserve,            cuMemAddressReserve,           10020, optional) \
  X(mem_address_free,               cuMemAddressFree,              10020, optional) \
  X(mem_create,                     cuMemCreate,                   10020, optional) \
  X(mem_release,                    cuMemRelease,                  10020, optional) \
  X(mem_map,                        cuMemMap,                      10020, optional) \
  X(mem_unmap,                      cuMemUnmap,                    10020, optional) \
  X(mem_set_access,                 cuMemSetAccess,                10020, optional) \
  X(mem_export_to_shareable_handle, cuMemExportToShareableHandle,  10020, optional) \
  X(mem_import_from_shareable_handle, cuMemImportFromShareableHandle, 10020, optional) \
  X(stream_create_with_priority,    cuStreamCreateWithPriority,    5050,  required) \
  X(stream_destroy,                 cuStreamDestroy,               4000,  required) \
  X(stream_query,                   cuStreamQuery,                 2000,  required) \
  X(stream_synchronize,             cuStreamSynchronize,           2000,  required) \
  X(stream_wait_event,              cuStreamWaitEvent,             3020,  required) \
  X(stream_get_priority,            cuStreamGetPriority,           5050,  optional) \
  X(stream_wait_value32,            cuStreamWaitValue32,           11070, optional) \
  X(stream_write_value32,           cuStreamWriteValue32,          11070, optional) \
  X(launch_host_func,               cuLaunchHostFunc,              10000, required) \
  X(event_create,                   cuEventCreate,                 2000,  required) \
  X(event_destroy,                  cuEventDestroy,                4000,  required) \
  X(event_record,                   cuEventRecord,                 2000,  required) \
  X(event_query,                    cuEventQuery,                  2000,  required) \
  X(event_synchronize,              cuEventSynchronize,            2000,  required) \
  X(event_elapsed_time,             cuEventElapsedTime,            2000,  required) \
  X(ipc_get_event_handle,           cuIpcGetEventHandle,           4010,  optional) \
  X(ipc_open_event_handle,          cuIpcOpenEventHandle,          4010,  optional) \
  X(memcpy_async,                   cuMemcpyAsync,                 4000,  required) \
  X(memcpy_peer_async,              cuMemcpyPeerAsync,             4000,  required) \
  X(memcpy_2d_async,                cuMemcpy2DAsync,               3020,  required) \
  X(memcpy_batch_async,             cuMemcpyBatchAsync,            13000, optional) \
  X(memset_d8_async,                cuMemsetD8Async,               3020,  required) \
  X(event_record_with_flags,        cuEventRecordWithFlags,        11010, optional) \
  X(stream_begin_capture,           cuStreamBeginCapture,          10010, optional) \
  X(stream_end_capture,             cuStreamEndCapture,            10000, optional) \
  X(stream_is_capturing,            cuStreamIsCapturing,           10000, optional) \
  X(stream_get_capture_info,        cuStreamGetCaptureInfo,        12030, optional) \
  X(thread_exchange_capture_mode,   cuThreadExchangeStreamCaptureMode, 10010, optional) \
  X(graph_create,                   cuGraphCreate,                 10000, optional) \
  X(graph_destroy,                  cuGraphDestroy,                10000, optional) \
  X(graph_add_empty_node,           cuGraphAddEmptyNode,           10000, optional) \
  X(graph_get_nodes,                cuGraphGetNodes,               10000, optional) \
  X(graph_get_edges,                cuGraphGetEdges,               12030, optional) \
  X(graph_node_get_type,            cuGraphNodeGetType,            10000, optional) \
  X(graph_instantiate,              cuGraphInstantiateWithFlags,   11040, optional) \
  X(graph_launch,                   cuGraphLaunch,                 10000, optional) \
  X(graph_exec_destroy,             cuGraphExecDestroy,            10000, optional) \
  X(user_object_create,             cuUserObjectCreate,            11030, optional) \
  X(user_object_release,            cuUserObjectRelease,           11030, optional) \
  X(graph_retain_user_object,       cuGraphRetainUserObject,       11030, optional)
// clang-format on
