// SPDX-License-Identifier: Apache-2.0
// The part of the C ABI of PJRT that berth uses: numbers of slots, and layouts of arguments. No
// header of OpenXLA is needed to build berth. tests/pjrt compares all of this with that header,
// where it is installed.
//
// Rules of the ABI within major version 0: the table of functions and every struct grow only at
// their ends, except for a rearrangement in minor version 57. The first member of a struct is the
// size that its writer knows, up to and including its last member. A slot may be used if the
// table's size includes it. Text is not followed by a zero byte. An Error that a function or a
// callback passes belongs to its receiver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::pjrt {

// Objects of the plug-in.
struct Error;
struct Event;
struct Client;
struct Device;
struct Memory;
struct Description;
struct Topology;
struct Buffer;
struct TransferManager;

inline constexpr int kMajor = 0;
inline constexpr int kMinorMin = 57;
/// The version whose structs are declared here.
inline constexpr int kMinorKnown = 81;

/// The start of every extension, which continues with members of its own.
struct Extension {
  std::size_t struct_size;
  int type;
  const Extension* next;  ///< null: the last one
};

struct Version {
  std::size_t struct_size;
  void* extensions;
  int major;
  int minor;
};

/// The result of GetPjrtApi(), which is followed by the slots, one pointer each.
struct Table {
  std::size_t struct_size;
  const Extension* extensions;
  Version version;
};
using GetTable = const Table*();

enum class Code : int {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

enum class ValueType : int { string = 0, int64 = 1, int64_list = 2, float32 = 3, boolean = 4 };

struct NamedValue {
  std::size_t struct_size;
  void* extensions;
  const char* name;
  std::size_t name_bytes;
  ValueType type;
  union {
    const char* string;
    std::int64_t int64;
    const std::int64_t* int64_list;
    float float32;
    bool boolean;
  };
  std::size_t value_count;  ///< bytes of a string, elements of a list, otherwise 1
};

/// The type of an element of a buffer: a byte.
inline constexpr int kElementU8 = 6;
/// The plug-in may read host memory only until the transfer is over.
inline constexpr int kUntilTransferCompletes = 1;

// Arguments. Members behind "out" are written by the plug-in.

struct ErrorDestroyArgs {
  std::size_t struct_size;
  void* extensions;
  Error* error;
};

struct ErrorMessageArgs {
  std::size_t struct_size;
  void* extensions;
  const Error* error;
  const char* message;  ///< out
  std::size_t message_bytes;
};

struct ErrorCodeArgs {
  std::size_t struct_size;
  void* extensions;
  const Error* error;
  Code code;  ///< out
};

struct PluginInitializeArgs {
  std::size_t struct_size;
  void* extensions;
};

struct EventArgs {  ///< of Event_Destroy and Event_Await
  std::size_t struct_size;
  void* extensions;
  Event* event;
};

struct EventIsReadyArgs {
  std::size_t struct_size;
  void* extensions;
  Event* event;
  bool is_ready;  ///< out
};

using ReadyCallback = void (*)(Error* error, void* user);
struct EventOnReadyArgs {
  std::size_t struct_size;
  void* extensions;
  Event* event;
  ReadyCallback callback;
  void* user;
};

struct ClientCreateArgs {
  std::size_t struct_size;
  void* extensions;
  const NamedValue* options;
  std::size_t option_count;
  void* get_callback;  ///< the key-value store of a job of several processes: not used
  void* get_user;
  void* put_callback;
  void* put_user;
  Client* client;  ///< out
  void* try_get_callback;
  void* try_get_user;
};

struct ClientDestroyArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
};

struct ClientTextArgs {  ///< of Client_PlatformName and Client_PlatformVersion
  std::size_t struct_size;
  void* extensions;
  Client* client;
  const char* text;  ///< out
  std::size_t text_bytes;
};

struct ClientDevicesArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
  Device* const* devices;  ///< out
  std::size_t device_count;
};

struct BufferFromHostArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
  const void* data;
  int element_type;
  const std::int64_t* dims;
  std::size_t dim_count;
  const std::int64_t* byte_strides;  ///< null: dense
  std::size_t byte_stride_count;
  int host_buffer_semantics;
  Device* device;
  Memory* memory;  ///< null: the default memory of the device
  void* device_layout;
  Event* done_with_host_buffer;  ///< out
  Buffer* buffer;
};

struct DescriptionNumberArgs {  ///< of DeviceDescription_Id and DeviceDescription_ProcessIndex
  std::size_t struct_size;
  void* extensions;
  Description* description;
  int number;  ///< out
};

struct DescriptionAttributesArgs {
  std::size_t struct_size;
  void* extensions;
  Description* description;
  std::size_t attribute_count;  ///< out
  const NamedValue* attributes;
};

struct DescriptionTextArgs {  ///< of DeviceDescription_Kind and DeviceDescription_ToString
  std::size_t struct_size;
  void* extensions;
  Description* description;
  const char* text;  ///< out
  std::size_t text_bytes;
};

struct DeviceDescriptionArgs {
  std::size_t struct_size;
  void* extensions;
  Device* device;
  Description* description;  ///< out
};

struct DeviceNumberArgs {  ///< of Device_LocalHardwareId
  std::size_t struct_size;
  void* extensions;
  Device* device;
  int number;  ///< out
};

struct DeviceMemoryArgs {
  std::size_t struct_size;
  void* extensions;
  Device* device;
  Memory* memory;  ///< out
};

struct MaybeCount {
  std::int64_t value;
  bool is_set;
};

struct MemoryStatsArgs {
  std::size_t struct_size;
  void* extensions;
  Device* device;
  std::int64_t bytes_in_use;  ///< out
  MaybeCount bytes_in_use_peak;
  MaybeCount allocations;
  MaybeCount largest_allocation_bytes;
  MaybeCount bytes_limit;
  MaybeCount bytes_reserved;
  MaybeCount bytes_reserved_peak;
  MaybeCount bytes_reservable_limit;
  MaybeCount largest_free_block_bytes;
  MaybeCount pool_bytes;
  MaybeCount pool_bytes_peak;
};

struct BufferArgs {  ///< of Buffer_Destroy
  std::size_t struct_size;
  void* extensions;
  Buffer* buffer;
};

struct CopyToDeviceArgs {
  std::size_t struct_size;
  void* extensions;
  Buffer* source;
  Device* device;
  Buffer* copy;  ///< out
};

struct ToHostArgs {
  std::size_t struct_size;
  void* extensions;
  Buffer* source;
  void* host_layout;
  void* target;
  std::size_t target_bytes;
  Event* event;  ///< out
};

struct ReadyEventArgs {
  std::size_t struct_size;
  void* extensions;
  Buffer* buffer;
  Event* event;  ///< out
};

struct RawToHostArgs {
  std::size_t struct_size;
  void* extensions;
  Buffer* source;
  void* target;
  std::int64_t offset;
  std::int64_t bytes;
  Event* event;  ///< out
};

struct ShapeSpec {
  std::size_t struct_size;
  void* extensions;
  const std::int64_t* dims;
  std::size_t dim_count;
  int element_type;
};

struct CreateAsyncArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
  ShapeSpec* shapes;
  std::size_t shape_count;
  void** device_layouts;
  std::size_t device_layout_count;
  Memory* memory;
  TransferManager* manager;  ///< out
};

struct ManagerDestroyArgs {
  std::size_t struct_size;
  void* extensions;
  TransferManager* manager;
};

struct TransferDataArgs {
  std::size_t struct_size;
  void* extensions;
  TransferManager* manager;
  int buffer_index;
  const void* data;
  std::int64_t offset;
  std::int64_t bytes;
  bool is_last;
  Event* done;  ///< out
};

struct RetrieveBufferArgs {
  std::size_t struct_size;
  void* extensions;
  TransferManager* manager;
  int buffer_index;
  Buffer* buffer;  ///< out
};

struct SetBufferErrorArgs {
  std::size_t struct_size;
  void* extensions;
  TransferManager* manager;
  int buffer_index;
  Code code;
  const char* message;
  std::size_t message_bytes;
};

struct DmaMapArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
  void* data;
  std::size_t bytes;
};

struct DmaUnmapArgs {
  std::size_t struct_size;
  void* extensions;
  Client* client;
  void* data;
};

/// The offset of a slot's pointer in the table.
constexpr std::size_t slot_offset(std::size_t slot) {
  return sizeof(Table) + slot * sizeof(void*);
}

}  // namespace berth::pjrt
