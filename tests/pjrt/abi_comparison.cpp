// SPDX-License-Identifier: Apache-2.0
// Compiles if src/pjrt/pjrt_abi.hpp agrees with OpenXLA's header: slots, sizes, places of members,
// and numbers. abi_test.py compiles it where that header is installed.
#include <pjrt_c_api.h>

#include "pjrt/pjrt_functions.hpp"

namespace berth::pjrt {

#define SAME_FUNCTION(member, slot, symbol, Args, last)                   \
  static_assert(offsetof(PJRT_Api, PJRT_##symbol) == slot_offset(slot));  \
  static_assert(PJRT_##symbol##_Args_STRUCT_SIZE == (member).args_bytes); \
  static_assert(sizeof(PJRT_##symbol##_Args) == sizeof(Args));
BERTH_PJRT_FUNCTIONS(SAME_FUNCTION)
#undef SAME_FUNCTION

#define SAME(Args, member, Theirs, theirs)                           \
  static_assert(offsetof(Args, member) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(Args::member) == sizeof(Theirs::theirs));

static_assert(offsetof(PJRT_Api, PJRT_Error_Destroy) == slot_offset(kErrorDestroySlot));
static_assert(offsetof(PJRT_Api, PJRT_Error_Message) == slot_offset(kErrorMessageSlot));
static_assert(offsetof(PJRT_Api, PJRT_Error_GetCode) == slot_offset(kErrorCodeSlot));
static_assert(kMajor == PJRT_API_MAJOR);
static_assert(kMinorKnown == PJRT_API_MINOR);
SAME(Table, struct_size, PJRT_Api, struct_size)
SAME(Table, extensions, PJRT_Api, extension_start)
static_assert(sizeof(Extension) == sizeof(PJRT_Extension_Base));
SAME(Extension, struct_size, PJRT_Extension_Base, struct_size)
SAME(Extension, type, PJRT_Extension_Base, type)
SAME(Extension, next, PJRT_Extension_Base, next)
SAME(Table, version, PJRT_Api, pjrt_api_version)
SAME(Version, major, PJRT_Api_Version, major_version)
SAME(Version, minor, PJRT_Api_Version, minor_version)

SAME(ErrorDestroyArgs, error, PJRT_Error_Destroy_Args, error)
SAME(ErrorMessageArgs, error, PJRT_Error_Message_Args, error)
SAME(ErrorMessageArgs, message, PJRT_Error_Message_Args, message)
SAME(ErrorMessageArgs, message_bytes, PJRT_Error_Message_Args, message_size)
SAME(ErrorCodeArgs, code, PJRT_Error_GetCode_Args, code)

SAME(NamedValue, name, PJRT_NamedValue, name)
SAME(NamedValue, name_bytes, PJRT_NamedValue, name_size)
SAME(NamedValue, type, PJRT_NamedValue, type)
SAME(NamedValue, string, PJRT_NamedValue, string_value)
SAME(NamedValue, int64, PJRT_NamedValue, int64_value)
SAME(NamedValue, int64_list, PJRT_NamedValue, int64_array_value)
SAME(NamedValue, float32, PJRT_NamedValue, float_value)
SAME(NamedValue, boolean, PJRT_NamedValue, bool_value)
SAME(NamedValue, value_count, PJRT_NamedValue, value_size)
static_assert(int(ValueType::string) == PJRT_NamedValue_kString);
static_assert(int(ValueType::int64) == PJRT_NamedValue_kInt64);
static_assert(int(ValueType::int64_list) == PJRT_NamedValue_kInt64List);
static_assert(int(ValueType::float32) == PJRT_NamedValue_kFloat);
static_assert(int(ValueType::boolean) == PJRT_NamedValue_kBool);
static_assert(kElementU8 == PJRT_Buffer_Type_U8);
static_assert(kUntilTransferCompletes == PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
static_assert(int(Code::cancelled) == PJRT_Error_Code_CANCELLED);
static_assert(int(Code::invalid_argument) == PJRT_Error_Code_INVALID_ARGUMENT);
static_assert(int(Code::resource_exhausted) == PJRT_Error_Code_RESOURCE_EXHAUSTED);
static_assert(int(Code::unimplemented) == PJRT_Error_Code_UNIMPLEMENTED);
static_assert(int(Code::unauthenticated) == PJRT_Error_Code_UNAUTHENTICATED);

SAME(EventArgs, event, PJRT_Event_Destroy_Args, event)
SAME(EventArgs, event, PJRT_Event_Await_Args, event)
SAME(EventIsReadyArgs, event, PJRT_Event_IsReady_Args, event)
SAME(EventIsReadyArgs, is_ready, PJRT_Event_IsReady_Args, is_ready)
SAME(EventOnReadyArgs, event, PJRT_Event_OnReady_Args, event)
SAME(EventOnReadyArgs, callback, PJRT_Event_OnReady_Args, callback)
SAME(EventOnReadyArgs, user, PJRT_Event_OnReady_Args, user_arg)

SAME(ClientCreateArgs, options, PJRT_Client_Create_Args, create_options)
SAME(ClientCreateArgs, option_count, PJRT_Client_Create_Args, num_options)
SAME(ClientCreateArgs, client, PJRT_Client_Create_Args, client)
SAME(ClientDestroyArgs, client, PJRT_Client_Destroy_Args, client)
SAME(ClientTextArgs, text, PJRT_Client_PlatformName_Args, platform_name)
SAME(ClientTextArgs, text_bytes, PJRT_Client_PlatformVersion_Args, platform_version_size)
SAME(ClientDevicesArgs, devices, PJRT_Client_AddressableDevices_Args, addressable_devices)
SAME(ClientDevicesArgs, device_count, PJRT_Client_AddressableDevices_Args, num_addressable_devices)

SAME(BufferFromHostArgs, client, PJRT_Client_BufferFromHostBuffer_Args, client)
SAME(BufferFromHostArgs, data, PJRT_Client_BufferFromHostBuffer_Args, data)
SAME(BufferFromHostArgs, element_type, PJRT_Client_BufferFromHostBuffer_Args, type)
SAME(BufferFromHostArgs, dims, PJRT_Client_BufferFromHostBuffer_Args, dims)
SAME(BufferFromHostArgs, dim_count, PJRT_Client_BufferFromHostBuffer_Args, num_dims)
SAME(BufferFromHostArgs, byte_strides, PJRT_Client_BufferFromHostBuffer_Args, byte_strides)
SAME(BufferFromHostArgs, byte_stride_count, PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides)
SAME(BufferFromHostArgs, host_buffer_semantics, PJRT_Client_BufferFromHostBuffer_Args,
     host_buffer_semantics)
SAME(BufferFromHostArgs, device, PJRT_Client_BufferFromHostBuffer_Args, device)
SAME(BufferFromHostArgs, memory, PJRT_Client_BufferFromHostBuffer_Args, memory)
SAME(BufferFromHostArgs, device_layout, PJRT_Client_BufferFromHostBuffer_Args, device_layout)
SAME(BufferFromHostArgs, done_with_host_buffer, PJRT_Client_BufferFromHostBuffer_Args,
     done_with_host_buffer)
SAME(BufferFromHostArgs, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer)

SAME(DescriptionNumberArgs, description, PJRT_DeviceDescription_Id_Args, device_description)
SAME(DescriptionNumberArgs, number, PJRT_DeviceDescription_Id_Args, id)
SAME(DescriptionNumberArgs, number, PJRT_DeviceDescription_ProcessIndex_Args, process_index)
SAME(DescriptionAttributesArgs, attribute_count, PJRT_DeviceDescription_Attributes_Args,
     num_attributes)
SAME(DescriptionAttributesArgs, attributes, PJRT_DeviceDescription_Attributes_Args, attributes)
SAME(DescriptionTextArgs, text, PJRT_DeviceDescription_Kind_Args, device_kind)
SAME(DescriptionTextArgs, text_bytes, PJRT_DeviceDescription_ToString_Args, to_string_size)
SAME(DeviceDescriptionArgs, description, PJRT_Device_GetDescription_Args, device_description)
SAME(DeviceNumberArgs, number, PJRT_Device_LocalHardwareId_Args, local_hardware_id)
SAME(DeviceMemoryArgs, memory, PJRT_Device_DefaultMemory_Args, memory)

using Stats = PJRT_Device_MemoryStats_Args;
SAME(MemoryStatsArgs, bytes_in_use, Stats, bytes_in_use)
#define SAME_COUNT(member, theirs)                                                   \
  static_assert(offsetof(MemoryStatsArgs, member.value) == offsetof(Stats, theirs)); \
  static_assert(offsetof(MemoryStatsArgs, member.is_set) == offsetof(Stats, theirs##_is_set));
SAME_COUNT(bytes_in_use_peak, peak_bytes_in_use)
SAME_COUNT(allocations, num_allocs)
SAME_COUNT(largest_allocation_bytes, largest_alloc_size)
SAME_COUNT(bytes_limit, bytes_limit)
SAME_COUNT(bytes_reserved, bytes_reserved)
SAME_COUNT(bytes_reserved_peak, peak_bytes_reserved)
SAME_COUNT(bytes_reservable_limit, bytes_reservable_limit)
SAME_COUNT(largest_free_block_bytes, largest_free_block_bytes)
SAME_COUNT(pool_bytes, pool_bytes)
SAME_COUNT(pool_bytes_peak, peak_pool_bytes)

SAME(BufferArgs, buffer, PJRT_Buffer_Destroy_Args, buffer)
SAME(CopyToDeviceArgs, source, PJRT_Buffer_CopyToDevice_Args, buffer)
SAME(CopyToDeviceArgs, device, PJRT_Buffer_CopyToDevice_Args, dst_device)
SAME(CopyToDeviceArgs, copy, PJRT_Buffer_CopyToDevice_Args, dst_buffer)
SAME(ToHostArgs, source, PJRT_Buffer_ToHostBuffer_Args, src)
SAME(ToHostArgs, host_layout, PJRT_Buffer_ToHostBuffer_Args, host_layout)
SAME(ToHostArgs, target, PJRT_Buffer_ToHostBuffer_Args, dst)
SAME(ToHostArgs, target_bytes, PJRT_Buffer_ToHostBuffer_Args, dst_size)
SAME(ToHostArgs, event, PJRT_Buffer_ToHostBuffer_Args, event)
SAME(ReadyEventArgs, buffer, PJRT_Buffer_ReadyEvent_Args, buffer)
SAME(ReadyEventArgs, event, PJRT_Buffer_ReadyEvent_Args, event)
SAME(RawToHostArgs, source, PJRT_Buffer_CopyRawToHost_Args, buffer)
SAME(RawToHostArgs, target, PJRT_Buffer_CopyRawToHost_Args, dst)
SAME(RawToHostArgs, offset, PJRT_Buffer_CopyRawToHost_Args, offset)
SAME(RawToHostArgs, bytes, PJRT_Buffer_CopyRawToHost_Args, transfer_size)
SAME(RawToHostArgs, event, PJRT_Buffer_CopyRawToHost_Args, event)

SAME(ShapeSpec, dims, PJRT_ShapeSpec, dims)
SAME(ShapeSpec, dim_count, PJRT_ShapeSpec, num_dims)
SAME(ShapeSpec, element_type, PJRT_ShapeSpec, element_type)
using Create = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args;
SAME(CreateAsyncArgs, client, Create, client)
SAME(CreateAsyncArgs, shapes, Create, shape_specs)
SAME(CreateAsyncArgs, shape_count, Create, num_shape_specs)
SAME(CreateAsyncArgs, memory, Create, memory)
SAME(CreateAsyncArgs, manager, Create, transfer_manager)
using Data = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args;
SAME(TransferDataArgs, manager, Data, transfer_manager)
SAME(TransferDataArgs, buffer_index, Data, buffer_index)
SAME(TransferDataArgs, data, Data, data)
SAME(TransferDataArgs, offset, Data, offset)
SAME(TransferDataArgs, bytes, Data, transfer_size)
SAME(TransferDataArgs, is_last, Data, is_last_transfer)
SAME(TransferDataArgs, done, Data, done_with_h2d_transfer)
using Retrieve = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args;
SAME(RetrieveBufferArgs, buffer_index, Retrieve, buffer_index)
SAME(RetrieveBufferArgs, buffer, Retrieve, buffer_out)
using SetError = PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args;
SAME(SetBufferErrorArgs, buffer_index, SetError, buffer_index)
SAME(SetBufferErrorArgs, code, SetError, error_code)
SAME(SetBufferErrorArgs, message, SetError, error_message)
SAME(SetBufferErrorArgs, message_bytes, SetError, error_message_size)

SAME(DmaMapArgs, client, PJRT_Client_DmaMap_Args, client)
SAME(DmaMapArgs, data, PJRT_Client_DmaMap_Args, data)
SAME(DmaMapArgs, bytes, PJRT_Client_DmaMap_Args, size)
SAME(DmaUnmapArgs, client, PJRT_Client_DmaUnmap_Args, client)
SAME(DmaUnmapArgs, data, PJRT_Client_DmaUnmap_Args, data)
SAME(TopologyCreateArgs, name, PJRT_TopologyDescription_Create_Args, topology_name)
SAME(TopologyCreateArgs, name_bytes, PJRT_TopologyDescription_Create_Args, topology_name_size)
SAME(TopologyCreateArgs, options, PJRT_TopologyDescription_Create_Args, create_options)
SAME(TopologyCreateArgs, option_count, PJRT_TopologyDescription_Create_Args, num_options)
SAME(TopologyCreateArgs, topology, PJRT_TopologyDescription_Create_Args, topology)
SAME(TopologyTextArgs, text, PJRT_TopologyDescription_PlatformName_Args, platform_name)
SAME(TopologyTextArgs, text_bytes, PJRT_TopologyDescription_PlatformName_Args, platform_name_size)
using Descriptions = PJRT_TopologyDescription_GetDeviceDescriptions_Args;
SAME(TopologyDescriptionsArgs, descriptions, Descriptions, descriptions)
SAME(TopologyDescriptionsArgs, description_count, Descriptions, num_descriptions)
SAME(TopologyAttributesArgs, attributes, PJRT_TopologyDescription_Attributes_Args, attributes)
SAME(TopologyAttributesArgs, attribute_count, PJRT_TopologyDescription_Attributes_Args,
     num_attributes)

}  // namespace berth::pjrt
