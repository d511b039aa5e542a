/* SPDX-License-Identifier: Apache-2.0 */
// The stable C ABI of berth, for everything that can call C. It offers what the C++ headers do,
// whose comments hold here too; these say what is different. docs/c_api.md has an example.
//
// Failures   Whatever can fail returns a berth_status. berth_last_error_message() says what was
//            wrong. Outputs are the last parameters, and untouched by a call that fails.
// Null       No pointer may be null, unless its function says what null means: otherwise
//            BERTH_INVALID_ARGUMENT and the name of the parameter.
// Structs    One that starts with struct_size grows at its end from release to release. Start it
//            with its _INIT macro, which sets struct_size to what the program was compiled with;
//            berth reads and writes that much. More than berth knows is BERTH_INVALID_ARGUMENT.
//            In options, a field that is 0 or null means berth's default.
// Text       `char**` gives text to the caller, who frees it with berth_string_free(). `const
// char*`
//            stays the runtime's, valid until berth_runtime_destroy(). All text is UTF-8.
// Lifetime   Whatever comes from a runtime must be given back before it is destroyed. A handle or
//            value that was given back must not be used again: that is undefined where a function
//            does not say that it is detected.
// Threads    Every function is safe from any thread, except from inside a CUDA host callback.
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth/export.hpp"
#include "berth/memory_counters.h"

#define BERTH_VERSION_MAJOR 0
#define BERTH_VERSION_MINOR 1
#define BERTH_VERSION_PATCH 0
/// 10203 would be 1.2.3.
#define BERTH_VERSION \
  (BERTH_VERSION_MAJOR * 10000 + BERTH_VERSION_MINOR * 100 + BERTH_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/// A later release may add values: take those that are unknown for failures.
typedef enum berth_status {
  BERTH_OK = 0,
  BERTH_INVALID_ARGUMENT = 1,         ///< what was named does not exist or is not accepted
  BERTH_OUT_OF_MEMORY = 2,            ///< of the device, pinned or (rarely) the host's own
  BERTH_NOT_SUPPORTED = 3,            ///< this device or driver cannot do it
  BERTH_DRIVER_ERROR = 4,             ///< a driver call failed: berth_last_error_driver_code()
  BERTH_INTERNAL_ERROR = 5,           ///< none of these: a bug, of berth or of a callback
  BERTH_STATUS_INT_MAX_ = 0x7fffffff  ///< never returned; makes any int a value of this type
} berth_status;

/// "BERTH_OK" and so on; "unknown berth_status" for any other number.
BERTH_API const char* berth_status_name(berth_status status);

/// What was wrong with the calling thread's last call that failed: one line of at most 1023 bytes;
/// empty before the first. Valid until the thread's next call that fails, and not on other threads.
BERTH_API const char* berth_last_error_message(void);

/// The CUresult behind that failure; 0 where no driver call failed.
BERTH_API int berth_last_error_driver_code(void);

/// Frees text that berth gave to the caller. Null is no operation.
BERTH_API void berth_string_free(char* text);

/// BERTH_VERSION of the library that runs, which may be newer than this header.
BERTH_API int berth_version(void);

/// Owns devices, streams, memory and copies of one driver (berth::Runtime).
typedef struct berth_runtime berth_runtime;

typedef enum berth_severity { BERTH_SEVERITY_WARNING = 0, BERTH_SEVERITY_ERROR = 1 } berth_severity;

/// Gets one line on something that no call could return: it is called from whichever thread met it,
/// and must be safe from several at once. `message` is valid until the function returns.
typedef void (*berth_report_function)(berth_severity severity, const char* message, void* user);

/// Called when device memory is short and berth has none left to give back: frees what it can, and
/// returns whether it freed anything. May call berth. On the thread that asked for memory.
typedef bool (*berth_pressure_function)(size_t bytes_needed, void* user);

/// In berth_runtime_options.flags: device memory in segments from cuMemAlloc, not mapped granule by
/// granule into one address range.
#define BERTH_RUNTIME_NO_VIRTUAL_MEMORY UINT64_C(1)

/// Neither callback may throw or leave by longjmp(); each may fail calls of berth of its own.
typedef struct berth_runtime_options {
  size_t struct_size;
  /// "cuda", "sim", "auto" or the path of a driver library. Null and "": the environment variable
  /// BERTH_DRIVER, and "cuda" where that is unset too.
  const char* driver;
  uint64_t flags;                    ///< BERTH_RUNTIME_ bits; an unknown bit is an error
  size_t device_reserved_bytes_max;  ///< of each device; 0: what it has
  size_t device_granule_bytes;       ///< 0: the device's minimum
  size_t device_segment_bytes;       ///< without virtual memory; 0: 20 MiB
  size_t pinned_reserved_bytes_max;  ///< 0: no limit
  size_t pinned_segment_bytes;       ///< 0: 16 MiB
  size_t streams_max;                ///< pooled streams of one priority; 0: 128
  size_t staging_slot_bytes;         ///< 0: 4 MiB
  size_t staging_slots;              ///< 0: 8
  berth_pressure_function on_pressure;
  void* on_pressure_user;
  berth_report_function report;
  void* report_user;
} berth_runtime_options;

#define BERTH_RUNTIME_OPTIONS_INIT \
  { sizeof(berth_runtime_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL }

typedef struct berth_driver_info {
  size_t struct_size;
  const char* name;     ///< "cuda", "sim", or the path of a driver library
  const char* problem;  ///< one line where not usable, otherwise ""
  int usable;           ///< 1: found, complete and initialised; otherwise 0
  int version;          ///< 12020 is CUDA 12.2; 0 where not usable
} berth_driver_info;

#define BERTH_DRIVER_INFO_INIT \
  { sizeof(berth_driver_info), NULL, NULL, 0, 0 }

/// Without a usable driver this succeeds all the same: there are 0 devices then, and
/// berth_driver_get_info() says why. Null `options`: all defaults.
BERTH_API berth_status berth_runtime_create(const berth_runtime_options* options,
                                            berth_runtime** runtime);
/// Null is no operation. What goes wrong goes to the report function.
BERTH_API void berth_runtime_destroy(berth_runtime* runtime);

BERTH_API berth_status berth_driver_get_info(berth_runtime* runtime, berth_driver_info* info);

enum { BERTH_DEVICE_CPU = 0, BERTH_DEVICE_CUDA = 1 };

/// A device as a user names it, whether it exists or not. Zeroed, it is the CPU.
typedef struct berth_device {
  int kind;     ///< BERTH_DEVICE_CPU or BERTH_DEVICE_CUDA
  int ordinal;  ///< N of `cuda:N`; -1: the calling thread's current device; 0 for the CPU
} berth_device;

static inline berth_device berth_device_cpu(void) {
  const berth_device device = {BERTH_DEVICE_CPU, 0};
  return device;
}
/// `ordinal` from 0; -1: the calling thread's current device.
static inline berth_device berth_device_cuda(int ordinal) {
  const berth_device device = {BERTH_DEVICE_CUDA, ordinal};
  return device;
}

/// One physical device.
typedef struct berth_device_info {
  size_t struct_size;
  const char* uuid;
  const char* pci_bus_id;
  const char* name;
  uint64_t memory_bytes;
  int physical;  ///< position in PCI order, from 0
  int logical;   ///< N of `cuda:N`; -1 where CUDA_VISIBLE_DEVICES hides it
} berth_device_info;

#define BERTH_DEVICE_INFO_INIT \
  { sizeof(berth_device_info), NULL, NULL, NULL, 0, 0, 0 }

typedef struct berth_memory_info {
  size_t struct_size;
  uint64_t bytes_free;
  uint64_t bytes_total;
} berth_memory_info;

#define BERTH_MEMORY_INFO_INIT \
  { sizeof(berth_memory_info), 0, 0 }

/// From "cpu", "cuda" or "cuda:N". Touches no driver.
BERTH_API berth_status berth_device_parse(const char* text, berth_device* device);
/// The text that berth_device_parse() accepts for it.
BERTH_API berth_status berth_device_format(berth_device device, char** text);

/// Visible CUDA devices; 0 where there is no usable driver.
BERTH_API berth_status berth_device_count(berth_runtime* runtime, int* count);
/// The same device with its ordinal filled in, if it exists.
BERTH_API berth_status berth_device_resolve(berth_runtime* runtime, berth_device device,
                                            berth_device* resolved);
BERTH_API berth_status berth_device_get_current(berth_runtime* runtime, berth_device* device);
BERTH_API berth_status berth_device_set_current(berth_runtime* runtime, berth_device device);

/// Of a visible CUDA device.
BERTH_API berth_status berth_device_get_info(berth_runtime* runtime, berth_device device,
                                             berth_device_info* info);
/// As the driver sees it now; of the machine for the CPU.
BERTH_API berth_status berth_device_get_memory_info(berth_runtime* runtime, berth_device device,
                                                    berth_memory_info* info);

/// Physical devices that are known, visible or hidden.
BERTH_API berth_status berth_physical_device_count(berth_runtime* runtime, int* count);
/// `physical` from 0 to the count - 1.
BERTH_API berth_status berth_physical_device_get_info(berth_runtime* runtime, int physical,
                                                      berth_device_info* info);
/// One line on what is wrong with CUDA_VISIBLE_DEVICES; "" where nothing is.
BERTH_API berth_status berth_visible_devices_get_problem(berth_runtime* runtime,
                                                         const char** problem);

typedef struct berth_device_guard berth_device_guard;

/// Makes a device current on the calling thread until the guard is left, on the same thread. Guards
/// nest: the last that was entered is left first.
BERTH_API berth_status berth_device_guard_enter(berth_runtime* runtime, berth_device device,
                                                berth_device_guard** guard);
/// Null is no operation.
BERTH_API void berth_device_guard_leave(berth_device_guard* guard);

/// A CUDA stream and where it belongs: a reference, to be passed by value and compared by both
/// fields. Zeroed, it is no stream. Only berth makes one; `native` is for the driver's own calls.
typedef struct berth_stream {
  struct berth_device_context* context;
  struct CUstream_st* native;  ///< null: the legacy default stream
} berth_stream;

/// The same for a CUDA event.
typedef struct berth_event {
  struct berth_device_context* context;
  struct CUevent_st* native;
} berth_event;

/// A pooled stream. `priority`: 0 is the default and the lowest, lower numbers run first.
BERTH_API berth_status berth_stream_acquire(berth_runtime* runtime, berth_device device,
                                            int priority, berth_stream* stream);
/// Gives back what berth_stream_acquire() gave, once; work may be pending. The process is stopped
/// over a stream that is not of the pool, and over one given back twice.
BERTH_API berth_status berth_stream_release(berth_runtime* runtime, berth_stream stream);

/// For berth_stream_create(): the legacy default stream waits for this stream, and this stream for
/// it.
#define BERTH_STREAM_BLOCKS_WITH_LEGACY_DEFAULT UINT32_C(1)

/// A stream of the caller's own. `flags`: 0, or BERTH_STREAM_ bits; an unknown bit is an error.
BERTH_API berth_status berth_stream_create(berth_runtime* runtime, berth_device device,
                                           int priority, uint32_t flags, berth_stream* stream);
/// Destroys a stream that the caller owns, whoever made it; pending work completes. Allocators are
/// told. The legacy default stream is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_stream_destroy(berth_stream stream);

/// Refers to a stream that something else made on `device`. Null `native`: the legacy default
/// stream.
BERTH_API berth_status berth_stream_from_native(berth_runtime* runtime, berth_device device,
                                                struct CUstream_st* native, berth_stream* stream);
BERTH_API berth_status berth_stream_get_device(berth_stream stream, berth_device* device);

/// Whether all work submitted so far is done. Never waits.
BERTH_API berth_status berth_stream_is_done(berth_stream stream, bool* is_done);
/// Blocks the calling thread until all work submitted so far is done.
BERTH_API berth_status berth_stream_sync(berth_stream stream);
/// Work submitted to `stream` from now on waits for what `event` marks. The host does not.
BERTH_API berth_status berth_stream_wait(berth_stream stream, berth_event event);

/// The calling thread's current stream on `device`: the legacy default stream outside of guards.
BERTH_API berth_status berth_stream_get_current(berth_runtime* runtime, berth_device device,
                                                berth_stream* stream);

typedef struct berth_stream_guard berth_stream_guard;

/// Makes a stream, and its device, current on the calling thread until the guard is left, on the
/// same thread. Guards nest: the last that was entered is left first.
BERTH_API berth_status berth_stream_guard_enter(berth_stream stream, berth_stream_guard** guard);
/// Null is no operation.
BERTH_API void berth_stream_guard_leave(berth_stream_guard* guard);

/// For berth_event_acquire() and berth_event_create(): berth_event_elapsed_ms() is wanted.
#define BERTH_EVENT_TIMING UINT32_C(1)

/// A pooled event, which may still carry an old mark: record it before use. `flags`: 0, or
/// BERTH_EVENT_ bits; an unknown bit is an error.
BERTH_API berth_status berth_event_acquire(berth_runtime* runtime, berth_device device,
                                           uint32_t flags, berth_event* event);
/// A pooled event that marks the work submitted to `stream` so far.
BERTH_API berth_status berth_event_acquire_recorded(berth_runtime* runtime, berth_stream stream,
                                                    berth_event* event);
/// Gives back what one of these two gave, once. The process is stopped over an event that is not of
/// the pool.
BERTH_API berth_status berth_event_release(berth_runtime* runtime, berth_event event);

/// An event of the caller's own. `flags` as in berth_event_acquire().
BERTH_API berth_status berth_event_create(berth_runtime* runtime, berth_device device,
                                          uint32_t flags, berth_event* event);
/// Destroys an event that the caller owns, whoever made it.
BERTH_API berth_status berth_event_destroy(berth_event event);
/// Refers to an event that something else made on `device`.
BERTH_API berth_status berth_event_from_native(berth_runtime* runtime, berth_device device,
                                               struct CUevent_st* native, berth_event* event);
BERTH_API berth_status berth_event_get_device(berth_event event, berth_device* device);

/// Marks the end of the work submitted to `stream` so far.
BERTH_API berth_status berth_event_record(berth_event event, berth_stream stream);
/// Whether all marked work is done; true for an event that was never recorded. Never waits.
BERTH_API berth_status berth_event_is_done(berth_event event, bool* is_done);
/// Blocks the calling thread until the marked work is done.
BERTH_API berth_status berth_event_sync(berth_event event);
/// Milliseconds between two marks that are done, of events made with BERTH_EVENT_TIMING.
BERTH_API berth_status berth_event_elapsed_ms(berth_event start, berth_event end,
                                              float* elapsed_ms);

/// A caching allocator, of one device's memory or of pinned host memory. Belongs to its runtime:
/// there is nothing to give back.
typedef struct berth_allocator berth_allocator;

/// No limit, for berth_allocator_set_reserved_bytes_max().
#define BERTH_NO_LIMIT SIZE_MAX

/// A level: its value now, and the highest since the last reset.
typedef struct berth_gauge {
  uint64_t current;
  uint64_t peak;
} berth_gauge;

// Gauges and totals are two structs so that each list can grow at its end. What each field counts
// stands in memory_counters.h.
#define BERTH_FIELD_(name, help) berth_gauge name;
typedef struct berth_memory_gauges {
  size_t struct_size;
  BERTH_MEMORY_GAUGES(BERTH_FIELD_)
} berth_memory_gauges;
#undef BERTH_FIELD_

#define BERTH_FIELD_(name, help) uint64_t name;
typedef struct berth_memory_totals {
  size_t struct_size;
  BERTH_MEMORY_TOTALS(BERTH_FIELD_)
} berth_memory_totals;
#undef BERTH_FIELD_

#define BERTH_GAUGE_ZERO_(name, help) \
  , {                                 \
    0, 0                              \
  }
#define BERTH_TOTAL_ZERO_(name, help) , 0
#define BERTH_MEMORY_GAUGES_INIT \
  { sizeof(berth_memory_gauges) BERTH_MEMORY_GAUGES(BERTH_GAUGE_ZERO_) }
#define BERTH_MEMORY_TOTALS_INIT \
  { sizeof(berth_memory_totals) BERTH_MEMORY_TOTALS(BERTH_TOTAL_ZERO_) }

BERTH_API berth_status berth_allocator_get_device(berth_runtime* runtime, berth_device device,
                                                  berth_allocator** allocator);
BERTH_API berth_status berth_allocator_get_pinned(berth_runtime* runtime,
                                                  berth_allocator** allocator);

/// Device memory that is ordered on `stream`; null for 0 bytes. A caller that only probes ignores
/// BERTH_OUT_OF_MEMORY. The pinned allocator is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_allocator_allocate(berth_allocator* allocator, size_t bytes,
                                                berth_stream stream, void** data);
/// Page-locked host memory; null for 0 bytes. A device's allocator is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_allocator_allocate_pinned(berth_allocator* allocator, size_t bytes,
                                                       void** data);

/// Frees a block that this allocator gave out, in the order of its stream. Null `data` is no
/// operation. A foreign pointer, one inside a block and one freed before are
/// BERTH_INVALID_ARGUMENT; nothing is changed.
BERTH_API berth_status berth_allocator_deallocate(berth_allocator* allocator, void* data);
/// Work submitted to `stream` uses the block at `data`: once freed, it is not reused before that
/// work is done.
BERTH_API berth_status berth_allocator_record_stream(berth_allocator* allocator, void* data,
                                                     berth_stream stream);
/// Gives cached memory back to the driver until at most `bytes_to_keep` are reserved, as far as
/// blocks in use allow.
BERTH_API berth_status berth_allocator_trim(berth_allocator* allocator, size_t bytes_to_keep,
                                            size_t* bytes_released);
/// Before a stream is destroyed by anything but berth, if blocks were allocated or recorded on it.
BERTH_API berth_status berth_allocator_retire_stream(berth_allocator* allocator,
                                                     berth_stream stream);

/// Bytes that may be reserved from the device from now on, 0 included; BERTH_NO_LIMIT: what it has.
/// The pinned allocator, whose limit is an option of the runtime, is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_allocator_set_reserved_bytes_max(berth_allocator* allocator,
                                                              size_t bytes);
/// Whether `data` points into memory of this device's allocator, live or not; null does not. The
/// pinned allocator is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_allocator_owns(berth_allocator* allocator, const void* data,
                                            bool* owns);
/// The live pinned block that `data` points into; null where there is none, null `data` included. A
/// device's allocator is BERTH_INVALID_ARGUMENT.
BERTH_API berth_status berth_allocator_find_pinned(berth_allocator* allocator, const void* data,
                                                   void** block);

/// Both structs from one reading.
BERTH_API berth_status berth_allocator_get_counters(berth_allocator* allocator,
                                                    berth_memory_gauges* gauges,
                                                    berth_memory_totals* totals);
/// Sets every gauge's peak to its current value.
BERTH_API berth_status berth_allocator_reset_peaks(berth_allocator* allocator);
/// Checks every invariant and stops the process at the first that is broken. Walks every block.
BERTH_API berth_status berth_allocator_validate(berth_allocator* allocator);

typedef struct berth_copy_counters {
  size_t struct_size;
  uint64_t copies_direct;  ///< one driver call: pinned or device memory on both sides
  uint64_t copies_staged;  ///< through the staging ring
  uint64_t copies_host;    ///< host to host
  uint64_t bytes_copied;   ///< of all of them
  uint64_t staging_waits;  ///< times a caller waited because every slot was in use
} berth_copy_counters;

#define BERTH_COPY_COUNTERS_INIT \
  { sizeof(berth_copy_counters), 0, 0, 0, 0, 0 }

/// Copies between memory of any two kinds in the order of `stream`. Device and pinned sources are
/// read when the stream gets there; a pageable source has been read when the call returns. The
/// target has the bytes when the stream has passed the copy. 0 bytes is no operation.
BERTH_API berth_status berth_copy_async(berth_runtime* runtime, void* target, const void* source,
                                        size_t bytes, berth_stream stream);
/// The same, then waits for the stream.
BERTH_API berth_status berth_copy_sync(berth_runtime* runtime, void* target, const void* source,
                                       size_t bytes, berth_stream stream);
/// Sets every byte of device memory in the order of `stream`.
BERTH_API berth_status berth_fill_async(berth_runtime* runtime, void* target, uint8_t value,
                                        size_t bytes, berth_stream stream);
BERTH_API berth_status berth_copy_get_counters(berth_runtime* runtime,
                                               berth_copy_counters* counters);

/// For people: everything that berth knows about itself now, on 80 columns.
BERTH_API berth_status berth_statistics_to_text(berth_runtime* runtime, char** text);
/// For programs: the same as one JSON object. Fields may be added to it by any release.
BERTH_API berth_status berth_statistics_to_json(berth_runtime* runtime, char** json);

#ifdef __cplusplus
}
#endif

#endif
