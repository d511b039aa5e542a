# SPDX-License-Identifier: Apache-2.0
"""The handle of a runtime. Every object obtained from the runtime keeps it alive."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import typing
import weakref

from berth import _abi, errors

#: Empty once the interpreter ends: nothing is freed then, because the process frees everything, and
#: other libraries may already have ended. A default argument of each `__del__`, because the names
#: of a module may be gone by then.
ALIVE = [True]
#: The runtimes that call functions of the program.
_callers: weakref.WeakSet[RuntimeHandle] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """No thread, of berth or the program, enters the interpreter through berth any more."""
    ALIVE.clear()
    for handle in list(_callers):
        pointer = handle.pointer
        if pointer:
            _abi.library.berth_runtime_end_callbacks(pointer)


class _Ignored:
    """An exception that goes to `sys.unraisablehook`, where those of destructors go."""

    def __init__(self, error: BaseException):
        self._error = error

    def __del__(self) -> None:
        raise self._error


_Result = typing.TypeVar("_Result")


def guarded(
    function: typing.Callable[..., _Result], failed: _Result
) -> typing.Callable[..., _Result]:
    """`function` for C, whose exception counts as `failed`.

    If one left a callback of ctypes, the result in C would be undefined.
    """

    def call(*arguments: object) -> _Result:
        try:
            return function(*arguments)
        except BaseException as error:
            _Ignored(error)
            return failed

    return call


class Unique:
    """The only owner of something of C, which therefore cannot be copied or pickled."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol: typing.SupportsIndex) -> typing.NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


class Owned(ctypes.c_void_p):
    """A pointer that is closed with its last reference.

    A call of C refers to its arguments, so the pointer is not closed while another thread is in a
    call with it.
    """

    def __init__(
        self, pointer: ctypes.c_void_p, close: typing.Callable[[Owned], None], *kept: object
    ):
        super().__init__(pointer.value)
        self._close = close
        self.kept = kept
        #: The error of closing.
        self.failures: list[errors.Error] = []

    @classmethod
    def closed(cls) -> Owned:
        """What a closed object has instead."""
        return cls(ctypes.c_void_p(), lambda _: None)

    def abandon(self) -> None:
        """Never closes it."""
        self.value = None

    def __del__(self, alive=ALIVE, failure=errors.Error):
        if not alive or not self.value:
            return
        try:
            self._close(self)
        except failure as error:
            self.failures.append(error.with_traceback(None))


class Held(ctypes.c_void_p):
    """An argument of C that keeps other objects alive during the call."""

    def __init__(self, pointer: ctypes.c_void_p, *kept: object):
        super().__init__(pointer.value)
        self.kept = kept


class RuntimeHandle:
    """A berth_runtime and the objects obtained from it. It is destroyed after all of them."""

    __slots__ = ("__weakref__", "callbacks", "live", "pointer")

    def __init__(self, pointer: ctypes.c_void_p, callbacks: tuple, *, is_owned: bool = True):
        if is_owned:
            pointer = Owned(pointer, _abi.library.berth_runtime_destroy, callbacks)
        self.pointer = pointer
        self.callbacks = callbacks
        #: Each live object as its kind and its identity. Operations of a set are atomic.
        self.live: set[tuple[str, int]] = set()
        if any(callbacks):
            _callers.add(self)

    def get(self) -> ctypes.c_void_p:
        pointer = self.pointer
        if not pointer:
            raise errors.InvalidArgument("the runtime is closed")
        return pointer

    def begin(self, kind: str, owner: object) -> None:
        """Adds a live object."""
        self.live.add((kind, id(owner)))

    def end(self, kind: str, owner: object) -> bool:
        """Removes a live object. False if it is not live: another thread ends it, or has."""
        try:
            self.live.remove((kind, id(owner)))
        except KeyError:
            return False
        return True

    @contextlib.contextmanager
    def beginning(self, kind: str) -> typing.Iterator[ctypes.c_void_p]:
        """The berth_runtime, which is not closed while an object is created."""
        token = object()
        self.begin(kind, token)
        try:
            yield self.get()
        finally:
            self.end(kind, token)

    def close(self) -> None:
        if not self.pointer:
            return
        if self.live:
            kinds = sorted(kind for kind, _ in list(self.live))
            counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
            raise errors.InvalidArgument(
                f"the runtime has live objects, which must be freed first: {counts}"
            )
        # Destroyed by the last reference: here, or by another thread at the end of its call.
        self.pointer = ctypes.c_void_p()

    def __del__(self, owned=Owned):
        if self.live and isinstance(self.pointer, owned):
            self.pointer.abandon()
