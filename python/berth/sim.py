# SPDX-License-Identifier: Apache-2.0
"""Host functions that replace kernels, for a program under `berth sim --kernels host`, and names
of memory for its findings.

    import ctypes
    import berth.sim

    @berth.sim.kernel("double_all")
    def double_all(launch):
        memory = launch.argument(0, ctypes.c_uint64)
        bytes_used = 4 * launch.argument(1, ctypes.c_uint32)

        def compute(ranges):
            numbers = ranges[0].cast("f")
            for index, number in enumerate(numbers):
                numbers[index] = 2 * number

        return berth.sim.Work([berth.sim.write(memory, bytes_used)], compute)

The function is called in each launch of a kernel of that name, before the launch is checked. It
says which ranges the launch uses, so that its races are found. `compute` is called when the work
runs, on any thread that is in a driver call. Other threads can call the driver meanwhile. A call
that waits for the work of another thread must release the interpreter's lock, as calls by
ctypes.CDLL do: `compute` needs it. In `compute` a call of the driver returns
CUDA_ERROR_NOT_PERMITTED.

An exception of the function is printed, and the launch returns CUDA_ERROR_INVALID_VALUE. One of
`compute` goes to `sys.unraisablehook`, and the work counts as done, with the bytes that `compute`
has left.
"""

from __future__ import annotations

import collections.abc
import ctypes
import dataclasses
import itertools
import math
import traceback
import typing

from berth._arguments import checked, checked_callable, checked_size, checked_text, refuse

__all__ = ["Launch", "Use", "Work", "kernel", "name_memory", "read", "remove", "write"]

_Compute = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Launch(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_size_t),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
    ]


class _Use(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_size_t),
        ("writes", ctypes.c_int),
    ]


class _Work(ctypes.Structure):
    _fields_ = [
        ("duration_ns", ctypes.c_uint64),
        ("uses", ctypes.POINTER(_Use)),
        ("use_count", ctypes.c_size_t),
        ("compute", _Compute),
        ("release", _Release),
        ("data", ctypes.c_void_p),
    ]


_StandIn = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Launch), ctypes.POINTER(_Work), ctypes.c_void_p
)
_NameMemory = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_StandInForKernel = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, _StandIn, ctypes.c_void_p)

_Value = typing.TypeVar("_Value", bound=ctypes._SimpleCData)


class Launch:
    """A kernel launch, valid while the function runs."""

    def __init__(self, launch: _Launch) -> None:
        self.name: str = launch.name.decode()
        self.grid: tuple[int, ...] = tuple(launch.grid)
        self.block: tuple[int, ...] = tuple(launch.block)
        self.shared_bytes: int = launch.shared_bytes
        self._arguments = launch.arguments

    def argument(self, index: int, kind: type[_Value]) -> typing.Any:
        """The kernel parameter at `index`, as a ctypes type."""
        if not self._arguments:
            raise ValueError(f"{self.name} is launched without arguments")
        return kind.from_address(self._arguments[index]).value


@dataclasses.dataclass(frozen=True)
class Use:
    """A range of device or pinned memory that a launch uses."""

    address: int
    bytes: int
    writes: bool

    def __post_init__(self) -> None:
        checked_size(self.address, "address")
        checked_size(self.bytes, "bytes")


def read(address: int, bytes: int) -> Use:
    return Use(address, bytes, False)


def write(address: int, bytes: int) -> Use:
    """A range that is written, or read and written."""
    return Use(address, bytes, True)


@dataclasses.dataclass(frozen=True)
class Work:
    """What a launch does. `compute` gets a memoryview of bytes for each use; what it leaves in
    those that write becomes the content of the memory. None: no byte changes."""

    uses: typing.Sequence[Use] = ()
    compute: typing.Callable[[list[memoryview]], None] | None = None
    duration_ns: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.uses, collections.abc.Iterable):
            refuse(self.uses, "uses", "a sequence of berth.sim.Use")
        for use in self.uses:
            checked(use, Use, "uses", "a sequence of berth.sim.Use")
        checked_callable(self.compute, "compute")
        checked_size(self.duration_ns, "duration_ns")


_Function = typing.Callable[[Launch], Work]

#: Objects that the driver uses, by number, until it releases them.
_works: dict[int, tuple[Work, typing.Any]] = {}
_numbers = itertools.count(1)
_stand_ins: dict[str, typing.Any] = {}


@_Compute
def _compute(ranges: typing.Any, number: int) -> None:
    work, _ = _works[number]
    views = [
        memoryview((ctypes.c_char * use.bytes).from_address(ranges[index])).cast("B")
        for index, use in enumerate(work.uses)
    ]
    assert work.compute is not None
    work.compute(views)


@_Release
def _release(number: int) -> None:
    del _works[number]


def _driver_function(name: bytes, prototype: typing.Any) -> typing.Any:
    """Looks up a function of the driver, as any program does."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"no CUDA driver: {error}; `berth sim` has a simulated one") from None
    version = ctypes.c_int()
    address = ctypes.c_void_p()
    found = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuGetProcAddress_v2(
        name,
        ctypes.byref(address),
        version,
        ctypes.c_uint64(0),
        ctypes.byref(found),
    )
    if not address:
        raise RuntimeError("libcuda.so.1 is not the simulated driver: run it by `berth sim`")
    return prototype(address.value)


def _stand_in_for_kernel() -> typing.Any:
    return _driver_function(b"berthSimStandInForKernel", _StandInForKernel)


def kernel(name: str) -> typing.Callable[[_Function], _Function]:
    """Decorates the function that stands in for the kernels of that name: the name in the device
    code, or of C++ that in the source, without parameters."""
    encoded = checked_text(name, "name")
    if not encoded:
        raise ValueError("a kernel without a name; accepted: a name")

    def decorate(function: _Function) -> _Function:
        @_StandIn
        def stand_in(launch: typing.Any, result: typing.Any, _: typing.Any) -> int:
            try:
                work = function(Launch(launch.contents))
                uses = (_Use * len(work.uses))(
                    *((use.address, use.bytes, use.writes) for use in work.uses)
                )
            except BaseException:  # otherwise the result in C would be undefined
                traceback.print_exc()
                return 1
            number = next(_numbers)
            _works[number] = (work, uses)
            result.contents.duration_ns = work.duration_ns
            result.contents.uses = uses
            result.contents.use_count = len(uses)
            if work.compute is not None:
                result.contents.compute = _compute
            result.contents.release = _release
            result.contents.data = number
            return 0

        _stand_in_for_kernel()(encoded, stand_in, None)
        _stand_ins[name] = stand_in
        return function

    return decorate


def remove(name: str) -> None:
    """Removes the function of that name."""
    _stand_in_for_kernel()(checked_text(name, "name"), _StandIn(), None)
    _stand_ins.pop(name, None)


def name_memory(memory: typing.Any, name: str, bytes: int | None = None) -> None:
    """Findings call the memory by that name until it is freed or named again; "": by no name.
    `memory` is an array in device memory (one with `__cuda_array_interface__`, such as a tensor of
    PyTorch) or, with `bytes`, an address. Of an array with gaps between its elements, the gaps are
    named as well."""
    encoded = checked_text(name, "name")
    if bytes is None:
        start, bytes = _range_of(memory)
    else:
        start = checked_size(memory, "memory")
    _driver_function(b"berthSimNameMemory", _NameMemory)(
        start, checked_size(bytes, "bytes"), encoded
    )


def _range_of(array: typing.Any) -> tuple[int, int]:
    """The first byte of an array, and the number of bytes to its last one."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        refuse(array, "memory", "an array in device memory, or an address with bytes")
    item = int(interface["typestr"][2:])
    shape, strides = interface["shape"], interface.get("strides")
    start = interface["data"][0]
    if 0 in shape:
        return start, 0
    if strides is None:
        return start, item * math.prod(shape)
    spans = [(count - 1) * stride for count, stride in zip(shape, strides)]
    below = sum(span for span in spans if span < 0)
    return start + below, item + sum(abs(span) for span in spans)
