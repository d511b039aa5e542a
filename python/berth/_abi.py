# SPDX-License-Identifier: Apache-2.0
"""The part of the C ABI that the module uses: structs, functions, and statuses as exceptions.

tests/python/abi_test.py compares each declaration with the headers.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from berth import errors
from berth._library import library


class Device(ctypes.Structure):
    _fields_ = [("type", c_int), ("ordinal", c_int)]


class Stream(ctypes.Structure):
    _fields_ = [("context", c_void_p), ("native", c_void_p)]


class Event(ctypes.Structure):
    _fields_ = [("context", c_void_p), ("native", c_void_p)]


class Gauge(ctypes.Structure):
    _fields_ = [("current", c_uint64), ("peak", c_uint64)]


Pressure = ctypes.CFUNCTYPE(c_bool, c_void_p, c_size_t)


class MappedRange(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("piece_bytes", c_size_t),
        ("device", c_int),
        ("is_alias", c_int),
    ]


Map = ctypes.CFUNCTYPE(c_bool, c_void_p, ctypes.POINTER(MappedRange))
Unmap = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(MappedRange))
Report = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Sized(ctypes.Structure):
    """A struct whose later versions add fields at its end. Fields follow those of the base."""

    _fields_ = [("struct_size", c_size_t)]

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(self), **values)


class RuntimeOptions(Sized):
    _fields_ = [
        ("driver", c_char_p),
        ("flags", c_uint64),
        ("device_bytes_reserved_max", c_size_t),
        ("device_granule_bytes", c_size_t),
        ("device_segment_bytes", c_size_t),
        ("pinned_bytes_reserved_max", c_size_t),
        ("pinned_segment_bytes", c_size_t),
        ("streams_max", c_size_t),
        ("staging_slot_bytes", c_size_t),
        ("staging_slots", c_size_t),
        ("on_pressure", Pressure),
        ("on_pressure_user", c_void_p),
        ("report", Report),
        ("report_user", c_void_p),
        ("configuration", c_char_p),
        ("host_bytes_reserved_max", c_size_t),
        ("on_map", Map),
        ("on_unmap", Unmap),
        ("mapping_user", c_void_p),
    ]


RUNTIME_NO_VIRTUAL_MEMORY = 1
RUNTIME_IGNORE_ENVIRONMENT = 2


class DriverInfo(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("problem", c_char_p),
        ("usable", c_int),
        ("version", c_int),
    ]


class DeviceInfo(Sized):
    _fields_ = [
        ("uuid", c_char_p),
        ("pci_bus_id", c_char_p),
        ("name", c_char_p),
        ("memory_bytes", c_uint64),
        ("physical", c_int),
        ("logical", c_int),
        ("flags", c_uint64),
        ("gpu_instance", c_int),
        ("compute_instance", c_int),
    ]


class MemoryInfo(Sized):
    _fields_ = [
        ("bytes_free", c_uint64),
        ("bytes_total", c_uint64),
    ]


class MemoryBlock(Sized):
    _fields_ = [
        ("allocator", c_void_p),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("device", Device),
    ]


class PinnedOptions(Sized):
    _fields_ = [
        ("near", Device),
        ("kind", c_int),
        ("flags", c_uint32),
    ]


PINNED_PORTABLE = 0
PINNED_WRITE_COMBINED = 1
PINNED_NO_WAIT = 1


class MemoryPoolOptions(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("flags", c_uint64),
        ("bytes_reserved_max", c_size_t),
        ("bytes_reserved_soft_max", c_size_t),
    ]


MEMORY_POOL_FOR_GRAPHS = 1
MEMORY_POOL_CONTIGUOUS = 2
MEMORY_POOL_FABRIC = 4


class MemoryProperties(Sized):
    _fields_ = [
        ("flags", c_uint64),
        ("segment", c_void_p),
        ("segment_bytes", c_size_t),
    ]


MEMORY_IS_LIVE = 1
MEMORY_IS_CONTIGUOUS = 2
MEMORY_IS_EXPORTABLE = 4
MEMORY_IS_RDMA_CAPABLE = 8
MEMORY_IS_FABRIC_EXPORTABLE = 16
NO_LIMIT = ctypes.c_size_t(-1).value

#: BERTH_MEMORY_GAUGES and BERTH_MEMORY_TOTALS of memory_counters.h.
GAUGES = (
    "bytes_requested bytes_allocated bytes_active bytes_reserved blocks_allocated blocks_pending "
    "blocks_free bytes_metadata bytes_asleep blocks_in_graphs bytes_unreturnable"
).split()
TOTALS = (
    "allocations frees allocations_grown frees_deferred frees_reclaimed blocks_passed_on "
    "stream_waits_inserted deferred_free_waits segments_mapped segments_released page_remaps "
    "limit_rejections out_of_memory allocations_last_freed allocations_thread_cached "
    "allocations_fitted allocations_stitched"
).split()


class MemoryGauges(Sized):
    _fields_ = [(name, Gauge) for name in GAUGES]


class MemoryTotals(Sized):
    _fields_ = [(name, c_uint64) for name in TOTALS]


handle = c_void_p
out_handle = POINTER(c_void_p)
out_text = POINTER(c_char_p)
owned_text = POINTER(c_void_p)

#: Parameters of each function that returns a berth_status.
FUNCTIONS = {
    "berth_runtime_create": [POINTER(RuntimeOptions), out_handle],
    "berth_runtime_end_callbacks": [handle],
    "berth_driver_get_info": [handle, POINTER(DriverInfo)],
    "berth_statistics_to_text": [handle, owned_text],
    "berth_statistics_to_json": [handle, owned_text],
    "berth_device_type_register": [c_char_p, POINTER(c_int)],
    "berth_device_type_get_name": [c_int, out_text],
    "berth_device_parse": [c_char_p, POINTER(Device)],
    "berth_device_format": [Device, owned_text],
    "berth_device_count": [handle, POINTER(c_int)],
    "berth_device_resolve": [handle, Device, POINTER(Device)],
    "berth_device_get_current": [handle, POINTER(Device)],
    "berth_device_set_current": [handle, Device],
    "berth_device_get_memory_info": [handle, Device, POINTER(MemoryInfo)],
    "berth_device_get_info": [handle, Device, POINTER(DeviceInfo)],
    "berth_allocator_get_device": [handle, Device, out_handle],
    "berth_allocator_get_pinned": [handle, out_handle],
    "berth_allocator_get_host": [handle, out_handle],
    "berth_allocator_get_location": [handle, POINTER(Device)],
    "berth_allocator_allocate": [handle, c_size_t, Stream, out_handle],
    "berth_allocator_allocate_pinned_with": [
        handle,
        c_size_t,
        POINTER(PinnedOptions),
        out_handle,
    ],
    "berth_allocator_allocate_host": [handle, c_size_t, out_handle],
    "berth_allocator_deallocate": [handle, c_void_p],
    "berth_allocator_record_stream": [handle, c_void_p, Stream],
    "berth_allocator_record_use": [handle, c_void_p, Stream],
    "berth_allocator_retire_stream": [handle, Stream],
    "berth_allocator_trim": [handle, c_size_t, POINTER(c_size_t)],
    "berth_allocator_release_unused": [handle, c_uint64, POINTER(c_size_t)],
    "berth_allocator_set_limits": [handle, c_size_t, c_size_t],
    "berth_allocator_owns": [handle, c_void_p, POINTER(c_bool)],
    "berth_allocator_get_counters": [handle, POINTER(MemoryGauges), POINTER(MemoryTotals)],
    "berth_allocator_reset_peaks": [handle],
    "berth_allocator_get_properties": [handle, c_void_p, POINTER(MemoryProperties)],
    "berth_memory_connection_open": [handle, c_int, out_handle],
    "berth_memory_connection_share": [
        handle,
        handle,
        POINTER(c_void_p),
        c_size_t,
        c_uint64,
        POINTER(c_size_t),
    ],
    "berth_memory_connection_reclaim": [handle, POINTER(c_size_t)],
    "berth_memory_connection_get_blocks_shared": [handle, POINTER(c_size_t)],
    "berth_memory_connection_is_open": [handle, POINTER(c_bool)],
    "berth_memory_connection_receive": [handle, c_uint64, out_handle],
    "berth_shared_block_get": [handle, out_handle, POINTER(c_size_t), POINTER(Device)],
    "berth_memory_find": [handle, c_void_p, POINTER(MemoryBlock)],
    "berth_memory_pool_create": [handle, Device, POINTER(MemoryPoolOptions), out_handle],
    "berth_memory_pool_get_allocator": [handle, out_handle],
    "berth_memory_pool_get_name": [handle, out_text],
    "berth_memory_pool_sleep": [handle, c_bool, POINTER(c_size_t)],
    "berth_memory_pool_wake": [handle],
    "berth_memory_pool_is_asleep": [handle, POINTER(c_bool)],
    "berth_memory_pools_sleep": [handle, Device, c_char_p, c_bool, POINTER(c_size_t)],
    "berth_memory_pools_wake": [handle, Device, c_char_p],
    "berth_memory_pool_scope_enter": [handle, out_handle],
    "berth_memory_pool_scope_enter_stream": [handle, Stream, out_handle],
    "berth_stream_acquire": [handle, Device, c_int, POINTER(Stream)],
    "berth_stream_release": [handle, Stream],
    "berth_stream_from_native": [handle, Device, c_void_p, POINTER(Stream)],
    "berth_stream_get_device": [Stream, POINTER(Device)],
    "berth_stream_is_done": [Stream, POINTER(c_bool)],
    "berth_stream_sync": [Stream],
    "berth_stream_wait": [Stream, Event],
    "berth_event_acquire_recorded": [handle, Stream, POINTER(Event)],
    "berth_event_release": [handle, Event],
    "berth_copy_async": [handle, c_void_p, c_void_p, c_size_t, Stream],
    "berth_copy_sync": [handle, c_void_p, c_void_p, c_size_t, Stream],
}

#: Functions that return something else: their result and parameters.
OTHERS = {
    "berth_version": (c_int, []),
    "berth_runtime_destroy": (None, [handle]),
    "berth_memory_pool_close": (None, [handle]),
    "berth_memory_connection_close": (None, [handle]),
    "berth_memory_connection_end": (None, [handle]),
    "berth_shared_block_return": (None, [handle]),
    "berth_memory_pool_scope_leave": (None, [handle]),
    "berth_string_free": (None, [c_void_p]),
    "berth_last_error_message": (c_char_p, []),
    "berth_last_error_driver_code": (c_int, []),
}


def _check(status, _function, _arguments):
    if status == 0:
        return status
    message = library.berth_last_error_message().decode(errors="replace")
    error = errors.BY_STATUS.get(status, errors.Error)(message)
    error.driver_code = library.berth_last_error_driver_code()
    try:
        raise error
    finally:
        # Otherwise the error and its traceback keep the arguments of the call until the next
        # collection of cycles, and what is closed meanwhile stays open.
        del error


for _name, (_result, _parameters) in OTHERS.items():
    _function = getattr(library, _name)
    _function.restype = _result
    _function.argtypes = _parameters
for _name, _parameters in FUNCTIONS.items():
    _function = getattr(library, _name)
    _function.restype = c_int
    _function.argtypes = _parameters
    _function.errcheck = _check


def take_text(text: c_void_p) -> str:
    """Returns the text of a `char**` output, and frees it."""
    try:
        return ctypes.cast(text, c_char_p).value.decode(errors="replace")
    finally:
        library.berth_string_free(text)
