# SPDX-License-Identifier: Apache-2.0
"""The structs of DLPack 1.x, as in its specification."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p

MAJOR, MINOR = 1, 0
#: Bits of `flags`.
READ_ONLY = 1
IS_COPIED = 2


class Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DeviceNumber(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DeviceNumber),
        ("ndim", c_int32),
        ("dtype", DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class Managed(ctypes.Structure):
    """DLManagedTensor, for consumers that know DLPack 0.x."""

    _fields_ = [("tensor", Tensor), ("manager", c_void_p), ("deleter", c_void_p)]


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", Version),
        ("manager", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


#: The names of capsules, fresh and used.
NAMES: dict[type, tuple[bytes, bytes]] = {
    Managed: (b"dltensor", b"used_dltensor"),
    ManagedVersioned: (b"dltensor_versioned", b"used_dltensor_versioned"),
}


def _function(name: str, result: object, *parameters: object) -> ctypes._CFuncPtr:
    # A separate function object: other modules set other types on ctypes.pythonapi.
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


# Capsules by address, because a destructor must not count references to its capsule.
new_capsule = _function("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
is_valid = _function("PyCapsule_IsValid", ctypes.c_int, c_void_p, c_char_p)
pointer_of = _function("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
rename = _function("PyCapsule_SetName", ctypes.c_int, c_void_p, c_char_p)
keep_forever = _function("Py_IncRef", None, ctypes.py_object)
# Without types of parameters, which are converted by calls that fail while an exception is set.
fetch_exception = _function("PyErr_Fetch", None)
restore_exception = _function("PyErr_Restore", None, c_void_p, c_void_p, c_void_p)


class PendingException:
    """Room for the exception of a thread: its type, value and traceback."""

    __slots__ = ("addresses", "fields")

    def __init__(self) -> None:
        self.fields = (c_void_p(), c_void_p(), c_void_p())
        self.addresses = tuple(ctypes.byref(field) for field in self.fields)


Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
