/* SPDX-License-Identifier: Apache-2.0 */
// Devices as a user names them, and which of them there are.
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

/// Numbers of device types. Others are registered, and count up from 2.
enum { BERTH_DEVICE_CPU = 0, BERTH_DEVICE_CUDA = 1 };

/// A value: naming a device neither checks that it exists nor touches a driver. All fields 0 is the
/// CPU.
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

/// The number of the type of this name, which is registered where it is not yet, for the life of the
/// process: the same name always gives the same number.
/// Errors  BERTH_INVALID_ARGUMENT: a name other than 1 to 15 of a-z, 0-9 and _ that begins with a
///         letter; one more type than 32.
BERTH_API berth_status berth_device_type_register(const char* name, int* type);
/// How many types there are: their numbers are those from 0, below this one.
BERTH_API berth_status berth_device_type_count(int* count);
/// The name is valid for the life of the process.
/// Errors  BERTH_INVALID_ARGUMENT: no type has this number.
BERTH_API berth_status berth_device_type_get_name(int type, const char** name);

/// From "cpu", "cuda", "cuda:N", or a registered type in the place of "cuda". "cpu:0" is the CPU too.
/// Errors  BERTH_INVALID_ARGUMENT, with the text and what is accepted.
BERTH_API berth_status berth_device_parse(const char* text, berth_device* device);
/// The text that berth_device_parse() accepts for it.
BERTH_API berth_status berth_device_format(berth_device device, char** text);

// Whatever takes a runtime and a device fails with BERTH_INVALID_ARGUMENT where the runtime has no
// such device, or manages none of its type. The message says which there are.

/// Visible CUDA devices; 0 where there is no usable driver.
BERTH_API berth_status berth_device_count(berth_runtime* runtime, int* count);
/// The same device with its ordinal filled in.
BERTH_API berth_status berth_device_resolve(berth_runtime* runtime, berth_device device,
                                            berth_device* resolved);

/// The device of the thread's current CUDA context; cuda:0 where it has none.
BERTH_API berth_status berth_device_get_current(berth_runtime* runtime, berth_device* device);
/// Makes the device's primary context current on the calling thread. Not for the CPU.
BERTH_API berth_status berth_device_set_current(berth_runtime* runtime, berth_device device);

typedef struct berth_device_guard berth_device_guard;

/// Makes a device current on the calling thread until the guard is left. Not for the CPU.
/// Threads  The guard is left on the thread that entered it; the last one entered is left first.
BERTH_API berth_status berth_device_guard_enter(berth_runtime* runtime, berth_device device,
                                                berth_device_guard** guard);
/// Restores what was current before. Null is no operation.
BERTH_API void berth_device_guard_leave(berth_device_guard* guard);

typedef struct berth_memory_info {
  size_t struct_size;
  uint64_t bytes_free;   ///< as the driver sees it now, other processes' use deducted
  uint64_t bytes_total;  ///< all memory of the device
} berth_memory_info;

#define BERTH_MEMORY_INFO_INIT \
  { sizeof(berth_memory_info), 0, 0 }

/// Needs, and so makes, the device's primary context. Of the machine's memory for the CPU.
BERTH_API berth_status berth_device_get_memory_info(berth_runtime* runtime, berth_device device,
                                                    berth_memory_info* info);

/// Bits of berth_device_info.flags.
enum {
  BERTH_DEVICE_MIG_MODE = 1,      ///< split by MIG: shown as its instances only
  BERTH_DEVICE_MIG_INSTANCE = 2,  ///< an instance of a device, not a device
  BERTH_DEVICE_LOST = 4           ///< NVML says that it does not answer any more
};

/// One physical device, or one MIG instance of it, whether CUDA_VISIBLE_DEVICES shows it or not.
/// Text is "" where nobody tells it.
typedef struct berth_device_info {
  size_t struct_size;
  const char* uuid;        ///< "GPU-", "MIG-" for an instance, and 8-4-4-4-12 hexadecimal digits
  const char* pci_bus_id;  ///< domain:bus:device.function, "00000000:1A:00.0"
  const char* name;        ///< as the driver says it
  uint64_t memory_bytes;   ///< total memory, an instance's its own; 0: unknown
  int physical;            ///< position in PCI order, from 0; of an instance, its device's
  int logical;             ///< N of `cuda:N`; -1 where it is hidden
  uint64_t flags;          ///< BERTH_DEVICE_MIG_MODE and its neighbours
  int gpu_instance;        ///< of an instance, as nvidia-smi numbers it; -1: none, or unknown
  int compute_instance;    ///< the same
} berth_device_info;

#define BERTH_DEVICE_INFO_INIT \
  { sizeof(berth_device_info), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0 }

/// Of a visible CUDA device. Not for the CPU.
BERTH_API berth_status berth_device_get_info(berth_runtime* runtime, berth_device device,
                                             berth_device_info* info);

/// Physical devices that are known, visible or hidden.
BERTH_API berth_status berth_physical_device_count(berth_runtime* runtime, int* count);
/// `physical` from 0, below the count. Anything else is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_physical_device_get_info(berth_runtime* runtime, int physical,
                                                      berth_device_info* info);

/// MIG instances that are known, visible or hidden.
BERTH_API berth_status berth_mig_instance_count(berth_runtime* runtime, int* count);
/// `index` from 0, below the count, in the order of their devices. Anything else is
/// BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_mig_instance_get_info(berth_runtime* runtime, int index,
                                                   berth_device_info* info);

/// One sentence on why a device is visible or not; berth_string_free() frees it.
BERTH_API berth_status berth_physical_device_explain(berth_runtime* runtime, int physical,
                                                     char** sentence);
/// The same of a MIG instance.
BERTH_API berth_status berth_mig_instance_explain(berth_runtime* runtime, int index,
                                                  char** sentence);

enum {
  BERTH_COMPUTE_MODE_SHARED = 0,            ///< every process may have contexts; the default
  BERTH_COMPUTE_MODE_PROHIBITED = 1,        ///< nobody
  BERTH_COMPUTE_MODE_EXCLUSIVE_PROCESS = 2  ///< one process at a time
};

/// What does not change while a process runs. -1: the driver does not tell.
typedef struct berth_device_facts {
  size_t struct_size;
  int compute_capability_major;  ///< "9.0" as 9 and 0
  int compute_capability_minor;
  int multiprocessors;  ///< of a MIG instance, its own
  int copy_engines;
  int host_numa_node;  ///< the machine's node that is closest to the device
  int compute_mode;    ///< BERTH_COMPUTE_MODE_SHARED and its neighbours
} berth_device_facts;

#define BERTH_DEVICE_FACTS_INIT \
  { sizeof(berth_device_facts), 0, 0, 0, 0, 0, 0 }

/// Read by the first call and kept, without a context. Not for the CPU.
BERTH_API berth_status berth_device_get_facts(berth_runtime* runtime, berth_device device,
                                              berth_device_facts* facts);

/// What lies between two devices, the closest first.
enum {
  BERTH_PEER_LINK_SAME_DEVICE = 0,  ///< also two MIG instances of one device
  BERTH_PEER_LINK_NVLINK = 1,
  BERTH_PEER_LINK_PCI_SWITCH = 2,   ///< one PCI switch, or several
  BERTH_PEER_LINK_HOST_BRIDGE = 3,  ///< one PCI host bridge of the processor
  BERTH_PEER_LINK_NUMA_NODE = 4,    ///< several host bridges of one NUMA node
  BERTH_PEER_LINK_SYSTEM = 5        ///< several NUMA nodes
};

/// One direction between two devices. -1: nobody tells.
typedef struct berth_peer_facts {
  size_t struct_size;
  int access;            ///< 1: `from` can be given access to the memory of `to`
  int native_atomics;    ///< 1: all atomic operations work across
  int performance_rank;  ///< relative; lower is faster, 0 the fastest
  int link;              ///< BERTH_PEER_LINK_NVLINK and its neighbours, where NVML tells
} berth_peer_facts;

#define BERTH_PEER_FACTS_INIT \
  { sizeof(berth_peer_facts), 0, 0, 0, 0 }

/// Read by the first call for the pair and kept, without a context. Not for the CPU.
BERTH_API berth_status berth_device_get_peer_facts(berth_runtime* runtime, berth_device from,
                                                   berth_device to, berth_peer_facts* facts);

/// Runtime::enable_peer_access(): work of `user` reaches the memory of `owner` from now on.
BERTH_API berth_status berth_device_enable_peer_access(berth_runtime* runtime, berth_device user,
                                                       berth_device owner);

/// Who holds a device's memory, as NVML says it. UINT64_MAX: it does not tell.
typedef struct berth_memory_use {
  size_t struct_size;
  uint64_t bytes_total;
  uint64_t bytes_used;     ///< by all processes and the driver itself
  uint64_t process_count;  ///< processes with memory on the device, this one among them
} berth_memory_use;

#define BERTH_MEMORY_USE_INIT \
  { sizeof(berth_memory_use), 0, 0, 0 }

typedef struct berth_process_memory {
  uint64_t pid;    ///< as NVML sees it: in a container, outside of that
  uint64_t bytes;  ///< UINT64_MAX: NVML does not tell
} berth_process_memory;

/// Without a context. Writes as many of the processes as there are and `capacity` allows; null where
/// `capacity` is 0. Not for the CPU.
BERTH_API berth_status berth_device_get_memory_use(berth_runtime* runtime, berth_device device,
                                                   berth_memory_use* use,
                                                   berth_process_memory* processes,
                                                   size_t capacity);

/// Of how much of the last moment, a second at most, some kernel ran on the device, without a
/// context; -1 where NVML does not tell. Not for the CPU.
BERTH_API berth_status berth_device_get_utilization(berth_runtime* runtime, berth_device device,
                                                    int* percent);
/// One line on why NVML tells nothing; "" where it works. Valid as long as the runtime.
BERTH_API berth_status berth_nvml_get_problem(berth_runtime* runtime, const char** problem);

/// The CUDA version whose headers berth was built with: 13000 is 13.0.
BERTH_API int berth_toolkit_version(void);

/// One line on what is wrong with CUDA_VISIBLE_DEVICES; "" where nothing is. Among it: that it has
/// changed since the runtime was made. The text is valid as long as the runtime.
BERTH_API berth_status berth_visible_devices_get_problem(berth_runtime* runtime,
                                                         const char** problem);

#ifdef __cplusplus
}
#endif

#endif
