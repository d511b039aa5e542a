# SPDX-License-Identifier: Apache-2.0
"""The handle of a runtime. Every object obtained from the runtime keeps it alive."""

from __future__ import annotations

import atexit
import ctypes
import operator

from berth import _abi, errors

#: Empty once the interpreter ends: nothing is freed then, because the process frees everything, and
#: other libraries may already have ended. A default argument of each `__del__`, because the names
#: of a module may be gone by then.
ALIVE = [True]
atexit.register(ALIVE.clear)


def checked_size(value: int, name: str) -> int:
    """Checks a number of bytes, which ctypes would truncate."""
    size = operator.index(value)
    if not 0 <= size <= _abi.NO_LIMIT:
        raise errors.InvalidArgument(f'"{name}" is {size}; accepted: 0 to {_abi.NO_LIMIT}')
    return size


def checked_text(value: str, name: str) -> bytes:
    """Checks and encodes text for C, where a zero ends it."""
    text = value.encode()
    if b"\0" in text:
        raise errors.InvalidArgument(f'"{name}" contains a zero character: {value!r}')
    return text


class RuntimeHandle:
    """A berth_runtime and the objects obtained from it. It is destroyed after all of them."""

    __slots__ = ("__weakref__", "callbacks", "live", "pointer")

    def __init__(self, pointer: ctypes.c_void_p, callbacks: tuple):
        self.pointer = pointer
        self.callbacks = callbacks
        #: Each live object as its kind and its address. Operations of a set are atomic.
        self.live: set[tuple[str, int]] = set()

    def get(self) -> ctypes.c_void_p:
        if not self.pointer:
            raise errors.InvalidArgument("the runtime is closed")
        return self.pointer

    def close(self) -> None:
        if not self.pointer:
            return
        if self.live:
            kinds = sorted(kind for kind, _ in list(self.live))
            counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
            raise errors.InvalidArgument(
                f"the runtime has live objects, which must be freed first: {counts}"
            )
        pointer, self.pointer = self.pointer, ctypes.c_void_p()
        _abi.library.berth_runtime_destroy(pointer)

    def __del__(self, alive=ALIVE, destroy=_abi.library.berth_runtime_destroy):
        if alive and self.pointer and not self.live:
            destroy(self.pointer)
