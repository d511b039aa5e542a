/* SPDX-License-Identifier: Apache-2.0 */
// Devices as a user names them, and the devices that exist.
#ifndef BERTH_DEVICE_H
#define BERTH_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Numbers of device types. Registered types count up from 2.
enum { BERTH_DEVICE_CPU = 0, BERTH_DEVICE_CUDA = 1 };

/// A value that names a device. It does not check that the device exists and makes no driver call.
/// All fields 0 is the CPU.
typedef struct berth_device {
  int type;     ///< BERTH_DEVICE_CPU, BERTH_DEVICE_CUDA, or the number of a registered type
  int ordinal;  ///< N of `cuda:N`; -1: the current device of the type; 0 for the CPU
} berth_device;

static inline berth_device berth_device_cpu(void) {
  const berth_device device = {BERTH_DEVICE_CPU, 0};
  return device;
}

/// `ordinal` from 0, or -1 for the calling thread's current device.
static inline berth_device berth_device_cuda(int ordinal) {
  const berth_device device = {BERTH_DEVICE_CUDA, ordinal};
  return device;
}

/// Whether the two name the same device. A device without an ordinal differs from the device that
/// it resolves to: see berth_device_resolve().
static inline int berth_device_is_same(berth_device a, berth_device b) {
  return a.type == b.type && a.ordinal == b.ordinal;
}

static inline int berth_device_is_cpu(berth_device device) {
  return device.type == BERTH_DEVICE_CPU;
}

/// Returns the number of the type of this name, and registers it for the life of the process if it
/// does not exist. The same name always gives the same number.
/// Errors  BERTH_INVALID_ARGUMENT: a name that is not 1 to 15 characters of a-z, 0-9 and _ with a
///         letter first; more than 32 types.
BERTH_API berth_status berth_device_type_register(const char* name, int* type);
/// Current number of types. Their numbers are 0 up to this number, exclusive.
BERTH_API berth_status berth_device_type_count(int* count);
/// The name is valid for the life of the process.
/// Errors  BERTH_INVALID_ARGUMENT: no type has this number.
BERTH_API berth_status berth_device_type_get_name(int type, const char** name);

/// Parses "cpu", "cuda", "cuda:N", or a registered type in the place of "cuda". "cpu:0" is the CPU
/// too.
/// Errors  BERTH_INVALID_ARGUMENT, with the text and the accepted forms.
BERTH_API berth_status berth_device_parse(const char* text, berth_device* device);
/// The text that berth_device_parse() accepts for this device.
BERTH_API berth_status berth_device_format(berth_device device, char** text);

// Every function with a runtime and a device returns BERTH_INVALID_ARGUMENT if the runtime has no
// such device, or manages no device of its type. The message lists the existing devices.

/// Number of visible CUDA devices; 0 without a usable driver.
BERTH_API berth_status berth_device_count(berth_runtime* runtime, int* count);
/// The same device with its ordinal.
BERTH_API berth_status berth_device_resolve(berth_runtime* runtime, berth_device device,
                                            berth_device* resolved);

/// The device of the thread's current CUDA context; cuda:0 if it has none.
/// Errors  BERTH_INVALID_ARGUMENT: there are no CUDA devices.
BERTH_API berth_status berth_device_get_current(berth_runtime* runtime, berth_device* device);
/// Makes the device's primary context current on the calling thread. Not for the CPU.
/// Errors  BERTH_DRIVER_ERROR: nothing is changed.
BERTH_API berth_status berth_device_set_current(berth_runtime* runtime, berth_device device);

typedef struct berth_device_guard berth_device_guard;

/// Makes a device current on the calling thread until the guard is left. Not for the CPU.
/// Threads  A guard must be left on the thread that entered it, in reverse order of entering.
BERTH_API berth_status berth_device_guard_enter(berth_runtime* runtime, berth_device device,
                                                berth_device_guard** guard);
/// Restores the previous context. Null: no effect.
BERTH_API void berth_device_guard_leave(berth_device_guard* guard);

/// Free and total memory of a device, or of the machine for the CPU.
typedef struct berth_memory_info {
  size_t struct_size;
  uint64_t bytes_free;   ///< now, as the driver reports it; memory of other processes is not free
  uint64_t bytes_total;  ///< total memory of the device
} berth_memory_info;

#define BERTH_MEMORY_INFO_INIT \
  { sizeof(berth_memory_info), 0, 0 }

/// Free and total memory of a device. For a CUDA device, creates its primary context if there is
/// none. For the CPU, the machine's memory.
/// Errors  BERTH_NOT_SUPPORTED: a backend that does not report both. BERTH_DRIVER_ERROR.
BERTH_API berth_status berth_device_get_memory_info(berth_runtime* runtime, berth_device device,
                                                    berth_memory_info* info);

/// The bytes that are `part` of a device's total memory, from 0 to 1, for options in bytes. For a
/// CUDA device, creates its primary context if there is none.
/// Errors  BERTH_INVALID_ARGUMENT: a part below 0, above 1, or not a number.
BERTH_API berth_status berth_device_get_bytes_of_part(berth_runtime* runtime, berth_device device,
                                                      double part, size_t* bytes);

/// Bits of berth_device_info.flags.
enum {
  BERTH_DEVICE_MIG_MODE = 1,      ///< split by MIG: shown only as its instances
  BERTH_DEVICE_MIG_INSTANCE = 2,  ///< an instance of a device, not a device
  BERTH_DEVICE_LOST = 4           ///< NVML reports that it no longer responds
};

/// One physical device, or one of its MIG instances, whether CUDA_VISIBLE_DEVICES shows it or not.
/// Unknown text is "".
typedef struct berth_device_info {
  size_t struct_size;
  const char* uuid;        ///< "GPU-", or "MIG-" for an instance, and 8-4-4-4-12 hexadecimal digits
  const char* pci_bus_id;  ///< domain:bus:device.function, "00000000:1A:00.0"
  const char* name;        ///< as the driver reports it
  uint64_t memory_bytes;   ///< total memory, for an instance its own; 0: unknown
  int physical;            ///< position in PCI order, from 0; for an instance, that of its device
  int logical;             ///< N of `cuda:N`; -1 if it is hidden
  uint64_t flags;          ///< BERTH_DEVICE_MIG_MODE and similar bits
  int gpu_instance;        ///< of an instance, as nvidia-smi numbers it; -1: none, or unknown
  int compute_instance;    ///< of an instance, as nvidia-smi numbers it; -1: none, or unknown
} berth_device_info;

#define BERTH_DEVICE_INFO_INIT \
  { sizeof(berth_device_info), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0 }

/// Information on a visible CUDA device. Not for the CPU.
BERTH_API berth_status berth_device_get_info(berth_runtime* runtime, berth_device device,
                                             berth_device_info* info);

/// Number of known physical devices, visible or hidden.
BERTH_API berth_status berth_physical_device_count(berth_runtime* runtime, int* count);
/// `physical` must be from 0 to the count, exclusive. Otherwise BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_physical_device_get_info(berth_runtime* runtime, int physical,
                                                      berth_device_info* info);

/// Number of known MIG instances, visible or hidden.
BERTH_API berth_status berth_mig_instance_count(berth_runtime* runtime, int* count);
/// `index` must be from 0 to the count, exclusive, in the order of their devices. Otherwise
/// BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_mig_instance_get_info(berth_runtime* runtime, int index,
                                                   berth_device_info* info);

/// One sentence on why a device is visible or not; berth_string_free() frees it.
BERTH_API berth_status berth_physical_device_explain(berth_runtime* runtime, int physical,
                                                     char** sentence);
/// One sentence on why a MIG instance is visible or not; berth_string_free() frees it.
BERTH_API berth_status berth_mig_instance_explain(berth_runtime* runtime, int index,
                                                  char** sentence);

enum {
  BERTH_COMPUTE_MODE_SHARED = 0,            ///< every process may have contexts; the default
  BERTH_COMPUTE_MODE_PROHIBITED = 1,        ///< no process may have contexts
  BERTH_COMPUTE_MODE_EXCLUSIVE_PROCESS = 2  ///< one process at a time
};

/// Properties of a device that do not change while a process runs. -1: unknown.
typedef struct berth_device_facts {
  size_t struct_size;
  int compute_capability_major;  ///< "9.0" as 9 and 0
  int compute_capability_minor;
  int multiprocessors;  ///< of a MIG instance, its own
  int copy_engines;
  int host_numa_node;  ///< the machine's NUMA node that is closest to the device
  int compute_mode;    ///< BERTH_COMPUTE_MODE_SHARED or a similar value
} berth_device_facts;

#define BERTH_DEVICE_FACTS_INIT \
  { sizeof(berth_device_facts), 0, 0, 0, 0, 0, 0 }

/// The facts of a device, read by the first call and then kept. Creates no context. Not for the
/// CPU.
BERTH_API berth_status berth_device_get_facts(berth_runtime* runtime, berth_device device,
                                              berth_device_facts* facts);

/// The connection between two devices, the closest first.
enum {
  BERTH_PEER_LINK_SAME_DEVICE = 0,  ///< also two MIG instances of one device
  BERTH_PEER_LINK_NVLINK = 1,
  BERTH_PEER_LINK_PCI_SWITCH = 2,   ///< one PCI switch, or several
  BERTH_PEER_LINK_HOST_BRIDGE = 3,  ///< one PCI host bridge of the processor
  BERTH_PEER_LINK_NUMA_NODE = 4,    ///< several host bridges of one NUMA node
  BERTH_PEER_LINK_SYSTEM = 5        ///< several NUMA nodes
};

/// One direction between two devices. -1: unknown.
typedef struct berth_peer_facts {
  size_t struct_size;
  int access;            ///< 1: `from` can be given access to the memory of `to`
  int native_atomics;    ///< 1: all atomic operations work across the link
  int performance_rank;  ///< relative; lower is faster, 0 is the fastest
  int link;              ///< BERTH_PEER_LINK_NVLINK or a similar value, if NVML reports it
} berth_peer_facts;

#define BERTH_PEER_FACTS_INIT \
  { sizeof(berth_peer_facts), 0, 0, 0, 0 }

/// Read by the first call for the pair and then kept. Creates no context. Not for the CPU.
BERTH_API berth_status berth_device_get_peer_facts(berth_runtime* runtime, berth_device from,
                                                   berth_device to, berth_peer_facts* facts);

/// Lets work of `user` access the memory of `owner` from now on, in this direction only:
/// Runtime::enable_peer_access() in C++.
/// Errors  BERTH_INVALID_ARGUMENT: the CPU, or the same device twice. BERTH_NOT_SUPPORTED: the
///         devices have no peer access. BERTH_DRIVER_ERROR: call again to retry.
BERTH_API berth_status berth_device_enable_peer_access(berth_runtime* runtime, berth_device user,
                                                       berth_device owner);

/// The use of a device's memory by all processes, as NVML reports it. UINT64_MAX: unknown.
typedef struct berth_device_memory_use {
  size_t struct_size;
  uint64_t bytes_total;
  uint64_t bytes_used;     ///< by all processes and the driver itself
  uint64_t process_count;  ///< processes with memory on the device, including this one
} berth_device_memory_use;

#define BERTH_DEVICE_MEMORY_USE_INIT \
  { sizeof(berth_device_memory_use), 0, 0, 0 }

/// The memory of one process on a device.
typedef struct berth_process_memory {
  uint64_t pid;    ///< as NVML sees it: in a container, the id outside the container
  uint64_t bytes;  ///< UINT64_MAX: unknown
} berth_process_memory;

/// Writes up to `capacity` processes; `processes` may be null if `capacity` is 0. Creates no
/// context. Not for the CPU.
BERTH_API berth_status berth_device_get_memory_use(berth_runtime* runtime, berth_device device,
                                                   berth_device_memory_use* use,
                                                   berth_process_memory* processes,
                                                   size_t capacity);

/// The percentage of the last period, at most a second, in which a kernel ran on the device; -1 if
/// NVML does not report it. Creates no context. Not for the CPU.
BERTH_API berth_status berth_device_get_utilization(berth_runtime* runtime, berth_device device,
                                                    int* percent);
/// The reason why NVML is not available, in one line; "" if it works. Valid as long as the runtime.
BERTH_API berth_status berth_nvml_get_problem(berth_runtime* runtime, const char** problem);

/// The CUDA version of the headers that berth was built with: 13000 is 13.0.
BERTH_API int berth_toolkit_version(void);

/// CUDA_VISIBLE_DEVICES as CUDA has read it; null if it was not set. Valid as long as the runtime.
BERTH_API berth_status berth_visible_devices_get(berth_runtime* runtime, const char** text);
/// The problem with CUDA_VISIBLE_DEVICES in one line; "" if there is none. A change of the variable
/// since the runtime was created is also a problem. The text is valid as long as the runtime.
BERTH_API berth_status berth_visible_devices_get_problem(berth_runtime* runtime,
                                                         const char** problem);

#ifdef __cplusplus
}
#endif

#endif
