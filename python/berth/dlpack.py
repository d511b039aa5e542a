# SPDX-License-Identifier: Apache-2.0
"""Memory to and from other tensor libraries by DLPack."""

from __future__ import annotations

import atexit
import ctypes
import math
import threading
import typing

from berth import _abi, dlpack_abi, errors
from berth._arguments import checked, refuse
from berth.data_type import DataType
from berth.device import Device
from berth.dlpack_abi import Managed, ManagedVersioned
from berth.stream import Stream

#: Each tensor that another library holds, by the address of its struct.
_exports: dict[int, _Export] = {}
#: For each capsule, by its address, what its destructor needs.
_pending: dict[int, dlpack_abi.PendingException] = {}
_lock = threading.Lock()


class Exported(typing.Protocol):
    """What this module needs of a block."""

    pointer: int
    _exports: set[int]


class _Export:
    """An exported tensor, and the objects that it refers to."""

    def __init__(
        self,
        block: Exported,
        shape: tuple[int, ...],
        dtype: DataType,
        device: tuple[int, int],
        kind: type[Managed | ManagedVersioned],
    ):
        dimensions = len(shape)
        self.block = block
        self.shape = (ctypes.c_int64 * dimensions)(*shape)
        self.strides = (ctypes.c_int64 * dimensions)(
            *(math.prod(shape[index + 1 :]) for index in range(dimensions))
        )
        self.struct = kind(deleter=ctypes.cast(_delete, ctypes.c_void_p))
        if isinstance(self.struct, ManagedVersioned):
            self.struct.version = dlpack_abi.Version(dlpack_abi.MAJOR, dlpack_abi.MINOR)
        self.struct.tensor = dlpack_abi.Tensor(
            data=self.block.pointer,
            device=dlpack_abi.DeviceNumber(*device),
            ndim=dimensions,
            dtype=dlpack_abi.DataType(dtype.code, dtype.bits, 1),
            shape=self.shape,
            strides=self.strides,
        )
        self.address = ctypes.addressof(self.struct)


# A default argument exists as long as the function.
def _let_go(address: int, exports: dict[int, _Export] = _exports) -> None:
    """The deleter: the importer releases the tensor, on any thread."""
    export = exports.pop(address, None)
    if export is not None:
        export.block._exports.discard(address)


_delete = dlpack_abi.Deleter(_let_go)


@dlpack_abi.Destructor
def _destroy_capsule(
    capsule: int,
    let_go: typing.Callable[[int], None] = _let_go,
    names: tuple[bytes, ...] = tuple(fresh for fresh, _ in dlpack_abi.NAMES.values()),
    is_valid: typing.Any = dlpack_abi.is_valid,
    pointer_of: typing.Any = dlpack_abi.pointer_of,
    pending: dict[int, dlpack_abi.PendingException] = _pending,
    fetch: typing.Any = dlpack_abi.fetch_exception,
    restore: typing.Any = dlpack_abi.restore_exception,
) -> None:
    """Destroys a capsule. One that was consumed has another name, and is left alone."""
    # If an importer raised while it had the capsule, its exception is set. Any call but this one,
    # which takes the exception away, would replace it.
    fetch(*pending[capsule].addresses)
    kind, value, traceback = pending.pop(capsule).fields
    try:
        for name in names:
            if is_valid(capsule, name):
                let_go(pointer_of(capsule, name))
    finally:
        restore(kind, value, traceback)


# Other libraries hold these addresses for as long as the process runs.
dlpack_abi.keep_forever(_delete)
dlpack_abi.keep_forever(_destroy_capsule)


@atexit.register
def _disarm() -> None:
    """Removes the deleters, because importers may outlive the interpreter."""
    for export in list(_exports.values()):
        export.struct.deleter = None


def export(
    block: Exported,
    shape: tuple[int, ...],
    dtype: DataType,
    device: tuple[int, int],
    is_versioned: bool,
) -> object:
    """A capsule that shares the block: see `Array.__dlpack__`."""
    kind = ManagedVersioned if is_versioned else Managed
    made = _Export(block, shape, dtype, device, kind)
    with _lock:
        if not made.block._exports:
            made.block._exports = set()
        made.block._exports.add(made.address)
    _exports[made.address] = made
    capsule = dlpack_abi.new_capsule(
        made.address,
        dlpack_abi.NAMES[kind][0],
        ctypes.cast(_destroy_capsule, ctypes.c_void_p),
    )
    _pending[id(capsule)] = dlpack_abi.PendingException()
    return capsule


class ImportedArray:
    """An array of another library. It is released by `release()`, or with its last reference."""

    def __init__(self, struct: Managed | ManagedVersioned):
        """A view, which from_dlpack() makes the owner."""
        self._struct: Managed | ManagedVersioned | None = None
        tensor = struct.tensor
        if tensor.ndim < 0 or (tensor.ndim > 0 and not tensor.shape):
            raise errors.InvalidArgument(f"the tensor has {tensor.ndim} dimensions, and no shape")
        self.pointer: int = (tensor.data or 0) + tensor.byte_offset
        self.device = Device.from_dlpack(tensor.device.device_type, tensor.device.device_id)
        self.dtype = DataType(tensor.dtype.code, tensor.dtype.bits)
        self.lanes: int = tensor.dtype.lanes
        self.shape = tuple(tensor.shape[: tensor.ndim])
        #: In elements; None: C-contiguous.
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        flags = struct.flags if isinstance(struct, ManagedVersioned) else 0
        self.is_read_only = bool(flags & dlpack_abi.READ_ONLY)
        if min(self.shape, default=0) < 0 or self.bytes > _abi.NO_LIMIT:
            raise errors.InvalidArgument(f"the tensor has the shape {self.shape} of {self.dtype}")

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        if self.strides is None or math.prod(self.shape) == 0:
            return True
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    @property
    def bytes(self) -> int:
        """The size of all elements."""
        return (math.prod(self.shape) * self.dtype.bits * self.lanes + 7) // 8

    def release(self) -> None:
        """Returns the array to its library. Repeated: no effect."""
        struct, self._struct = self._struct, None
        if struct is not None and struct.deleter:
            dlpack_abi.Deleter(struct.deleter)(ctypes.addressof(struct))

    def __enter__(self) -> ImportedArray:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_struct", None) is not None:
            self.release()


def from_dlpack(source: typing.Any, stream: Stream | None = None) -> ImportedArray:
    """Imports an array of another library without a copy.

    Work submitted to `stream` from now on may use it; None: the legacy default stream of its
    device. Wait for that work before the array is released.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        refuse(source, "source", "an array with __dlpack__() and __dlpack_device__()")
    if stream is not None:
        checked(stream, Stream, "stream", "a berth.Stream, or None")
    is_cuda = source.__dlpack_device__()[0] == 2
    options: dict[str, typing.Any] = {"max_version": (dlpack_abi.MAJOR, dlpack_abi.MINOR)}
    if is_cuda:
        options["stream"] = (stream.handle if stream is not None else 0) or 1
    try:
        capsule = source.__dlpack__(**options)
    except TypeError:
        del options["max_version"]  # DLPack 0.x
        capsule = source.__dlpack__(**options)
    for kind, (fresh, used) in dlpack_abi.NAMES.items():
        if dlpack_abi.is_valid(id(capsule), fresh):
            struct = kind.from_address(dlpack_abi.pointer_of(id(capsule), fresh))
            _check_version(struct)
            array = ImportedArray(struct)
            dlpack_abi.rename(id(capsule), used)
            array._struct = struct
            return array
    raise errors.InvalidArgument("__dlpack__() returned no tensor capsule, or a consumed one")


def _check_version(struct: Managed | ManagedVersioned) -> None:
    if isinstance(struct, ManagedVersioned) and struct.version.major != dlpack_abi.MAJOR:
        raise errors.NotSupported(
            f"DLPack {struct.version.major}.{struct.version.minor}; accepted: {dlpack_abi.MAJOR}.x"
        )
