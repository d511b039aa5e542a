# SPDX-License-Identifier: Apache-2.0
"""Blocks by address, for libraries that manage addresses and streams themselves."""

from __future__ import annotations

import ctypes

from berth import _abi, errors
from berth._arguments import checked_size
from berth.memory import Allocator
from berth.stream import Stream

#: CU_STREAM_LEGACY, another handle of the legacy default stream.
_LEGACY = 1


class RawMemory:
    """An allocator with raw addresses. Its runtime cannot be closed while this exists."""

    def __init__(self, allocator: Allocator, device_text: str):
        self.allocator = allocator
        self.device_text = device_text
        self._runtime = allocator._runtime
        self._device = _abi.Device()
        _abi.library.berth_device_parse(device_text.encode(), ctypes.byref(self._device))
        self._runtime.live.add(("memory of another library", id(self)))

    def allocate(self, size: int, stream: int) -> int:
        """Allocates a block for work submitted to the CUstream from now on; 0 for 0 bytes."""
        data = ctypes.c_void_p()
        _abi.library.berth_allocator_allocate(
            self.allocator._get(), checked_size(size, "size"), self._stream(stream),
            ctypes.byref(data),
        )  # fmt: skip
        return data.value or 0

    def free(self, address: int, stream: int | None) -> None:
        """Frees a block after the work submitted to the CUstream; None: no work uses the block.

        If no event can be recorded after that work, waits for it.
        """
        if not address:
            return
        allocator = self.allocator._of_blocks(self._runtime.get())
        if stream is not None:
            value = self._stream(stream)
            try:
                _abi.library.berth_allocator_record_use(allocator, address, value)
            except errors.InvalidArgument:
                raise  # no block, or a stream of another device
            except errors.Error:
                _abi.library.berth_stream_sync(value)
        _abi.library.berth_allocator_deallocate(allocator, address)

    def is_capturing(self) -> bool:
        """Whether a stream of the device that waits for the legacy default stream is captured."""
        result = ctypes.c_bool()
        _abi.library.berth_stream_is_capturing(self._stream(0), ctypes.byref(result))
        return result.value

    def retire_stream(self, stream: int) -> None:
        """Must be called before other code destroys the CUstream."""
        _abi.library.berth_allocator_retire_stream(self.allocator._get(), self._stream(stream))

    def _stream(self, handle: int) -> _abi.Stream:
        native = 0 if handle == _LEGACY else handle
        return Stream.from_native(self._runtime, self._device, native)._value

    def __del__(self) -> None:
        runtime = getattr(self, "_runtime", None)
        if runtime is not None:
            runtime.live.discard(("memory of another library", id(self)))
