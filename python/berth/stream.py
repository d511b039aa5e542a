# SPDX-License-Identifier: Apache-2.0
"""Streams: queues of work on one device, executed in order."""

from __future__ import annotations

import ctypes

from berth import _abi, errors
from berth._arguments import checked, checked_size
from berth._handle import ALIVE, RuntimeHandle, Unique
from berth.device import Device

_KIND = "stream"


class Stream(Unique):
    """A stream of a device: leased from the runtime's pool, or foreign."""

    __slots__ = ("_is_leased", "_runtime", "_value")

    def __init__(self, runtime: RuntimeHandle, value: _abi.Stream, is_leased: bool):
        self._runtime = runtime
        self._value = value
        self._is_leased = is_leased
        if is_leased:
            runtime.begin(_KIND, self)

    @classmethod
    def lease(cls, runtime: RuntimeHandle, device: _abi.Device, priority: int) -> Stream:
        """A pooled stream."""
        stream = cls(runtime, _abi.Stream(), is_leased=True)
        # C writes into the stream, because the handler of a signal may raise as soon as C returns.
        value = stream._value
        try:
            _abi.library.berth_stream_acquire(runtime.get(), device, priority, ctypes.byref(value))
        finally:
            if not value.context:
                stream.release()
        return stream

    @classmethod
    def from_native(cls, runtime: RuntimeHandle, device: _abi.Device, handle: int) -> Stream:
        """A foreign stream, by its CUstream; 0 is the legacy default stream."""
        value = _abi.Stream()
        native = checked_size(handle, "handle")
        _abi.library.berth_stream_from_native(runtime.get(), device, native, ctypes.byref(value))
        return cls(runtime, value, is_leased=False)

    @property
    def handle(self) -> int:
        """The CUstream for other libraries; 0 is the legacy default stream."""
        return self._live().native or 0

    @property
    def device(self) -> Device:
        device = _abi.Device()
        _abi.library.berth_stream_get_device(self._live(), ctypes.byref(device))
        return Device.from_abi(device)

    def sync(self) -> None:
        """Waits until all work submitted so far is done."""
        _abi.library.berth_stream_sync(self._live())

    def is_done(self) -> bool:
        """Whether all work submitted so far is done. Does not wait."""
        done = ctypes.c_bool()
        _abi.library.berth_stream_is_done(self._live(), ctypes.byref(done))
        return done.value

    def wait_for(self, other: Stream) -> None:
        """Orders work submitted from now on after the work submitted to `other` so far."""
        event = _abi.Event()
        awaited = live_stream(other, "other")
        pointer = self._runtime.get()
        _abi.library.berth_event_acquire_recorded(pointer, awaited, ctypes.byref(event))
        try:
            _abi.library.berth_stream_wait(self._live(), event)
        finally:
            _abi.library.berth_event_release(pointer, event)

    def release(self) -> None:
        """Returns a pooled stream to its pool; work may be pending. Repeated: no effect."""
        if not self._is_leased or not self._runtime.end(_KIND, self):
            return
        if not self._value.context:  # it could not be created, or the handler of a signal raised
            self._is_leased = False
            return
        try:
            _abi.library.berth_stream_release(self._runtime.get(), self._value)
        except errors.Error:
            self._runtime.begin(_KIND, self)
            raise
        self._is_leased = False
        self._value = _abi.Stream()

    def _live(self) -> _abi.Stream:
        if not self._value.context:
            raise errors.InvalidArgument("the stream was released")
        self._runtime.get()
        return self._value

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol of cuda.core: its version, and the handle."""
        return (0, self.handle)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        ours, theirs = self._value, other._value
        return (ours.context, ours.native) == (theirs.context, theirs.native)

    def __hash__(self) -> int:
        return hash((self._value.context, self._value.native))

    def __repr__(self) -> str:
        if not self._value.context:
            return "<released berth.Stream>"
        if not self._runtime.pointer:
            return f"<berth.Stream {self._value.native or 0:#x} of a closed runtime>"
        return f"<berth.Stream {self.handle:#x} of {self.device}>"

    def __del__(self, alive=ALIVE):
        if alive and getattr(self, "_is_leased", False) and self._runtime.pointer:
            try:
                self.release()
            except errors.Error:
                pass  # in a forked child


NO_STREAM = _abi.Stream()


def live_stream(value: object, name: str = "stream") -> _abi.Stream:
    """Checks that an argument is a stream that was not released."""
    return checked(value, Stream, name, "a berth.Stream")._live()
