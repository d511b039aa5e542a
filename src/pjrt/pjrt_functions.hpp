// SPDX-License-Identifier: Apache-2.0
// The functions of the PJRT table that berth uses: slot, name and arguments of each.
#pragma once

#include <cstddef>

#include "pjrt/pjrt_abi.hpp"
#include "pjrt/pjrt_topology_abi.hpp"

namespace berth::pjrt {

/// A function of the table. X(member, slot, name in the ABI, arguments, last member)
// clang-format off
#define BERTH_PJRT_FUNCTIONS(X) \
  X(plugin_initialize,       3,   Plugin_Initialize, PluginInitializeArgs, extensions) \
  X(event_destroy,           5,   Event_Destroy, EventArgs, event) \
  X(event_is_ready,          6,   Event_IsReady, EventIsReadyArgs, is_ready) \
  X(event_await,             8,   Event_Await, EventArgs, event) \
  X(event_on_ready,          9,   Event_OnReady, EventOnReadyArgs, user) \
  X(client_create,           10,  Client_Create, ClientCreateArgs, try_get_user) \
  X(client_destroy,          11,  Client_Destroy, ClientDestroyArgs, client) \
  X(client_platform_name,    12,  Client_PlatformName, ClientTextArgs, text_bytes) \
  X(client_platform_version, 14,  Client_PlatformVersion, ClientTextArgs, text_bytes) \
  X(client_devices,          16,  Client_AddressableDevices, ClientDevicesArgs, device_count) \
  X(buffer_from_host,        22,  Client_BufferFromHostBuffer, BufferFromHostArgs, buffer) \
  X(description_id,          23,  DeviceDescription_Id, DescriptionNumberArgs, number) \
  X(description_process,     24,  DeviceDescription_ProcessIndex, DescriptionNumberArgs, number) \
  X(description_attributes,  25, \
    DeviceDescription_Attributes, DescriptionAttributesArgs, attributes) \
  X(description_kind,        26,  DeviceDescription_Kind, DescriptionTextArgs, text_bytes) \
  X(description_name,        28,  DeviceDescription_ToString, DescriptionTextArgs, text_bytes) \
  X(device_description,      29,  Device_GetDescription, DeviceDescriptionArgs, description) \
  X(device_hardware_id,      31,  Device_LocalHardwareId, DeviceNumberArgs, number) \
  X(device_memory,           33,  Device_DefaultMemory, DeviceMemoryArgs, memory) \
  X(memory_stats,            34,  Device_MemoryStats, MemoryStatsArgs, pool_bytes_peak.is_set) \
  X(buffer_destroy,          58,  Buffer_Destroy, BufferArgs, buffer) \
  X(copy_to_device,          69,  Buffer_CopyToDevice, CopyToDeviceArgs, copy) \
  X(to_host,                 70,  Buffer_ToHostBuffer, ToHostArgs, event) \
  X(ready_event,             72,  Buffer_ReadyEvent, ReadyEventArgs, event) \
  X(topology_create,         82,  TopologyDescription_Create, TopologyCreateArgs, topology) \
  X(topology_destroy,        83,  TopologyDescription_Destroy, TopologyDestroyArgs, topology) \
  X(topology_platform_name,  84, \
    TopologyDescription_PlatformName, TopologyTextArgs, text_bytes) \
  X(topology_descriptions,   86, \
    TopologyDescription_GetDeviceDescriptions, TopologyDescriptionsArgs, description_count) \
  X(topology_attributes,     88, \
    TopologyDescription_Attributes, TopologyAttributesArgs, attribute_count) \
  X(raw_to_host,             100, Buffer_CopyRawToHost, RawToHostArgs, event) \
  X(manager_destroy,         101, \
    AsyncHostToDeviceTransferManager_Destroy, ManagerDestroyArgs, manager) \
  X(transfer_data,           102, \
    AsyncHostToDeviceTransferManager_TransferData, TransferDataArgs, done) \
  X(create_async,            103, \
    Client_CreateBuffersForAsyncHostToDevice, CreateAsyncArgs, manager) \
  X(retrieve_buffer,         104, \
    AsyncHostToDeviceTransferManager_RetrieveBuffer, RetrieveBufferArgs, buffer) \
  X(set_buffer_error,        108, \
    AsyncHostToDeviceTransferManager_SetBufferError, SetBufferErrorArgs, message_bytes) \
  X(dma_map,                 110, Client_DmaMap, DmaMapArgs, bytes) \
  X(dma_unmap,               111, Client_DmaUnmap, DmaUnmapArgs, data)
// clang-format on

// Functions of errors, which return no value and are in every table.
inline constexpr std::size_t kErrorDestroySlot = 0;
inline constexpr std::size_t kErrorMessageSlot = 1;
inline constexpr std::size_t kErrorCodeSlot = 2;
using ErrorDestroy = void(ErrorDestroyArgs*);
using ErrorMessage = void(ErrorMessageArgs*);
using ErrorCode = Error*(ErrorCodeArgs*);

/// No slot that berth uses is behind these.
inline constexpr std::size_t kSlotsMax = 118;

/// The size of a struct up to and including the last member that berth needs. 0: all that it knows.
template <class Args>
inline constexpr std::size_t kNeededBytes = 0;
template <>
inline constexpr std::size_t kNeededBytes<ClientCreateArgs> = offsetof(ClientCreateArgs, client) +
                                                              sizeof(Client*);
template <>
inline constexpr std::size_t kNeededBytes<MemoryStatsArgs> = offsetof(MemoryStatsArgs,
                                                                      bytes_in_use) +
                                                             sizeof(std::int64_t);

/// A function of the table, with the type of its arguments.
template <class Args_>
struct Function {
  using Args = Args_;
  std::size_t slot;
  const char* name;
  std::size_t args_bytes;  ///< up to and including the last member
};

#define BERTH_PJRT_FUNCTION(member, slot, symbol, Args, last)   \
  inline constexpr Function<Args> member{slot, "PJRT_" #symbol, \
                                         offsetof(Args, last) + sizeof(((Args*)nullptr)->last)};
BERTH_PJRT_FUNCTIONS(BERTH_PJRT_FUNCTION)
#undef BERTH_PJRT_FUNCTION

}  // namespace berth::pjrt
