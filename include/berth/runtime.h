/* SPDX-License-Identifier: Apache-2.0 */
// The runtime: the object that a framework embeds, which owns all other parts of berth.
#ifndef BERTH_RUNTIME_H
#define BERTH_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/error.h"
#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The owner of the devices, streams, memory and copies of one driver, and of the backends of other
/// device types. Everything that a function returns for a runtime must be released, freed or closed
/// before berth_runtime_destroy(), which reports the objects that are not, and closes memory pools:
/// a pool and its scopes may be closed later, and everything else must not be touched.
///
/// Exit      Functions registered with atexit() may use a runtime that still exists. After the
///           driver has shut down, calls that need it return BERTH_DRIVER_ERROR, and functions that
///           free or release have no effect.
/// Signals   No berth function may be called in a signal handler.
/// Fork      In a child made by fork(), functions that need the driver return BERTH_NOT_SUPPORTED,
///           and functions that free or release have no effect. The allocator of `cpu` works.
/// Threads   Every function is safe from any thread, unless its comment says otherwise, but not
///           from inside a CUDA host callback.
typedef struct berth_runtime berth_runtime;

typedef enum berth_severity { BERTH_SEVERITY_WARNING = 0, BERTH_SEVERITY_ERROR = 1 } berth_severity;

/// Receives problems that no call can return: one line, valid until the function returns. Called on
/// the thread that detected the problem, so possibly on several threads concurrently. Must not
/// throw or leave by longjmp().
typedef void (*berth_report_function)(void* user, berth_severity severity, const char* message);

/// Called when device memory is short and berth cannot return more without waiting, with the number
/// of missing bytes. Frees memory if it can, and returns whether it freed memory. Called on the
/// thread that requested memory, so possibly on several threads concurrently. It may call berth: if
/// an allocation inside it runs short, the function is not called again, and the allocation may
/// fail. Must not throw or leave by longjmp().
typedef bool (*berth_pressure_function)(void* user, size_t bytes_needed);

/// A range of device addresses that is mapped for an allocator.
typedef struct berth_mapped_range {
  size_t struct_size;
  void* data;
  size_t bytes;
  size_t piece_bytes;  ///< the range consists of pieces, each one physical allocation
  int device;          ///< N of cuda:N
  int is_alias;        ///< 1: the same memory is mapped elsewhere, too; otherwise 0
} berth_mapped_range;

/// Called when device memory has been mapped, before a block in it is handed out. False refuses it:
/// it is unmapped again, and the request returns BERTH_OUT_OF_MEMORY. on_map of
/// DeviceAllocatorOptions (device_allocator.hpp) says which ranges and when, which lock is held,
/// and which functions the callbacks may call. Must not throw or leave by longjmp().
typedef bool (*berth_map_function)(void* user, const berth_mapped_range* range);
/// Called before device memory is unmapped. Must not throw or leave by longjmp().
typedef void (*berth_unmap_function)(void* user, const berth_mapped_range* range);

/// A flag of berth_runtime_options: device memory comes in segments from cuMemAlloc, and is not
/// mapped granule by granule into one address range.
#define BERTH_RUNTIME_NO_VIRTUAL_MEMORY UINT64_C(1)
/// A flag of berth_runtime_options: BERTH_CONF is not read.
#define BERTH_RUNTIME_IGNORE_ENVIRONMENT UINT64_C(2)

/// Options of a runtime; RuntimeOptions in C++ describes them. A field that is 0 or null means its
/// default, which a later release may improve.
typedef struct berth_runtime_options {
  size_t struct_size;
  /// "cuda", "sim", "auto" or the path of a driver library. Null and "": the environment variable
  /// BERTH_DRIVER, or "cuda" if that is not set. Read only during the call. A driver named by
  /// `configuration` or BERTH_CONF overrides this one.
  const char* driver;
  uint64_t flags;                    ///< BERTH_RUNTIME_ bits; an unknown bit is an error
  size_t device_bytes_reserved_max;  ///< of each device; default: its memory
  size_t device_granule_bytes;       ///< a power of two; default: the device's minimum
  size_t device_segment_bytes;       ///< shared by small requests: 2 MiB or more
  size_t pinned_bytes_reserved_max;  ///< default: no limit
  size_t pinned_segment_bytes;       ///< 64 KiB to 1 GiB
  size_t streams_max;                ///< pooled streams of one device and priority
  size_t staging_slot_bytes;         ///< 64 KiB to 1 GiB, a multiple of 4 KiB
  size_t staging_slots;              ///< of each device, 2 to 65,536
  berth_pressure_function on_pressure;
  void* on_pressure_user;  ///< passed to on_pressure; may be null
  berth_report_function report;
  void* report_user;  ///< passed to report; may be null
  /// "key=value,key=value", applied over the fields above; docs/configuration.md lists the keys.
  /// The environment variable BERTH_CONF is applied over both. Read only during the call.
  const char* configuration;
  size_t host_bytes_reserved_max;  ///< of memory of `cpu`; default: no limit
  berth_map_function on_map;
  berth_unmap_function on_unmap;
  void* mapping_user;  ///< passed to on_map and on_unmap; may be null
} berth_runtime_options;

#define BERTH_RUNTIME_OPTIONS_INIT                                                                \
  {                                                                                               \
    sizeof(berth_runtime_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, \
        0, NULL, NULL, NULL                                                                       \
  }

/// Creates a runtime. Null `options` means all defaults. Without a usable driver the call still
/// succeeds: there are no devices, and berth_driver_get_info() returns the reason.
/// Blocking  As long as the plug-ins of the key `pjrt` take: berth_pjrt_register().
/// Errors    BERTH_INVALID_ARGUMENT: an option or an environment variable is out of range or
///           malformed.
BERTH_API berth_status berth_runtime_create(const berth_runtime_options* options,
                                            berth_runtime** runtime);

/// Ends the calls of the functions in the options: none runs when this returns, and none is called
/// afterwards. For functions that cannot be called for as long as the runtime exists, such as those
/// of an interpreter that ends. From then on no memory is mapped for which on_map would be called:
/// a request that needs it returns BERTH_OUT_OF_MEMORY. on_pressure counts as false. In a forked
/// child: no effect. Repeated: no effect.
/// Blocking  Waits for functions that are running on other threads. Must not be called inside one
///           of them, nor with a lock that one of them needs.
BERTH_API berth_status berth_runtime_end_callbacks(berth_runtime* runtime);

/// Ends the runtime with all its parts. Null: no effect. Failures go to the report function, which
/// is not called afterwards.
/// Blocking  Waits for outstanding callbacks, for copies through staging memory, for transfers of
///           backends, and for the work of devices on which memory was allocated.
/// Threads   No other thread may use the runtime meanwhile.
BERTH_API void berth_runtime_destroy(berth_runtime* runtime);

/// The driver of a runtime.
typedef struct berth_driver_info {
  size_t struct_size;
  const char* name;     ///< "cuda", "sim", or the path of a driver library
  const char* problem;  ///< one line if not usable, otherwise ""
  int usable;           ///< 1: found, complete and initialized; otherwise 0
  int version;          ///< 12020 is CUDA 12.2; 0 if not usable
} berth_driver_info;

#define BERTH_DRIVER_INFO_INIT \
  { sizeof(berth_driver_info), NULL, NULL, 0, 0 }

BERTH_API berth_status berth_driver_get_info(berth_runtime* runtime, berth_driver_info* info);

/// The address of a driver function that berth does not wrap, for modules, kernel launches and
/// graphs. `name` has no version suffix ("cuLaunchKernel"). The function has the ABI of CUDA
/// `version`, for example 12020 for 12.2. It belongs to the driver that berth itself calls, which
/// may be the simulated one. Its calls are not in the statistics. `*function` is null if the driver
/// is not usable, is older than `version`, or lacks the function, and in a forked child.
BERTH_API berth_status berth_driver_get_function(berth_runtime* runtime, const char* name,
                                                 int version, void** function);

#ifdef __cplusplus
}
#endif

#endif
