# SPDX-License-Identifier: Apache-2.0
"""Device memory shared with another process, over a local socket."""

from __future__ import annotations

import collections.abc
import ctypes
import socket as sockets
import typing

from berth import _abi, errors
from berth._arguments import INT_MAX, INT_MIN, checked, checked_integer, checked_time, refuse
from berth._handle import ALIVE, Owned, RuntimeHandle, Unique
from berth.device import Device
from berth.device_memory import Pool
from berth.memory import Block

_CONNECTION = "memory connection"
_BLOCK = "shared block"


def _milliseconds(seconds: float) -> int:
    return checked_time(seconds, "timeout", 1000)


def _descriptor(socket: sockets.socket | int) -> int:
    if hasattr(socket, "__index__"):
        return checked_integer(socket, "socket", INT_MIN, INT_MAX)
    return checked(socket, sockets.socket, "socket", "a socket, or its descriptor").fileno()


class SharedBlock(Unique):
    """A block that another process has shared, mapped into this process.

    It is returned to the other process by `free()`, or with its last reference; this waits for
    all work of the device. Work of the two processes is not ordered.
    """

    def __init__(self, runtime: RuntimeHandle, handle: ctypes.c_void_p):
        self._runtime = runtime
        self._handle = handle
        data, size, device = ctypes.c_void_p(), ctypes.c_size_t(), _abi.Device()
        _abi.library.berth_shared_block_get(
            handle, ctypes.byref(data), ctypes.byref(size), ctypes.byref(device)
        )
        self._pointer = data.value or 0
        #: The size as the other process requested it.
        self.bytes = size.value
        #: The device, with this process's numbering.
        self.device = Device.from_abi(device)
        runtime.begin(_BLOCK, self)

    @property
    def pointer(self) -> int:
        """The address in this process; 0 after `free()`."""
        return self._pointer

    def free(self) -> None:
        """Returns the block now. Repeated: no effect."""
        if not self._runtime.end(_BLOCK, self):
            return
        self._pointer = 0
        _abi.library.berth_shared_block_return(self._handle)

    @property
    def __cuda_array_interface__(self) -> dict[str, typing.Any]:
        """Version 3, as bytes. The consumer orders its work."""
        if not self._pointer:
            raise errors.InvalidArgument("the block was freed")
        return {
            "shape": (self.bytes,),
            "typestr": "|u1",
            "data": (self._pointer, False),
            "strides": None,
            "version": 3,
        }

    def __len__(self) -> int:
        return self.bytes

    def __repr__(self) -> str:
        return f"<berth.SharedBlock of {self.bytes} bytes at {self._pointer:#x}, {self.device}>"

    def __del__(self, alive=ALIVE):
        if alive and getattr(self, "_pointer", 0) and self._runtime.pointer:
            self.free()


class MemoryConnection(Unique):
    """A connection over which two processes share blocks of contiguous pools, in both directions.

    It keeps each block that it has shared until the other process has returned it, or has ended.
    `Runtime.connect_memory()` makes one. Safe from any thread.
    """

    def __init__(self, runtime: RuntimeHandle, socket: sockets.socket | int):
        """Takes ownership of `socket`, a connected one of AF_UNIX and SOCK_SEQPACKET."""
        number = _descriptor(socket)
        self._runtime = runtime
        handle = ctypes.c_void_p()
        with runtime.beginning(_CONNECTION) as pointer:
            _abi.library.berth_memory_connection_open(pointer, number, ctypes.byref(handle))
            self._handle = Owned(handle, _abi.library.berth_memory_connection_close, pointer)
            if isinstance(socket, sockets.socket):
                socket.detach()
            runtime.begin(_CONNECTION, self)

    def share(
        self,
        pool: Pool,
        blocks: Block | collections.abc.Iterable[Block],
        timeout: float = 10.0,
    ) -> None:
        """Shares blocks of `pool`, which belong to the connection from then on, and are empty.

        Waits up to `timeout` seconds while the queue of the other process is full. If it raises,
        blocks that are not empty have not been shared.
        """
        checked(pool, Pool, "pool", "a berth.Pool")
        if isinstance(blocks, Block):
            given = [blocks]
        elif isinstance(blocks, collections.abc.Iterable):
            given = list(blocks)
        else:
            refuse(blocks, "blocks", "a berth.Block, or an iterable of them")
        for block in given:
            checked(block, Block, "blocks", "a berth.Block, or an iterable of them")
            if not block.pointer:
                raise errors.InvalidArgument("an empty block cannot be shared")
            if block._exports:
                raise errors.InvalidArgument("a block that is exported cannot be shared")
        if len({block.pointer for block in given}) < len(given):
            raise errors.InvalidArgument("a block is passed twice")
        addresses = (ctypes.c_void_p * len(given))(*(block.pointer for block in given))
        shared = ctypes.c_size_t()
        try:
            _abi.library.berth_memory_connection_share(
                self._open(),
                pool._open(),
                addresses,
                len(given),
                _milliseconds(timeout),
                ctypes.byref(shared),
            )
        finally:
            for block in given[: shared.value]:
                block._give_up()

    def receive(self, timeout: float = 0.0) -> SharedBlock | None:
        """Returns the next block that the other process has shared, in order.

        Waits up to `timeout` seconds for one. None: the timeout, or the connection has ended.
        """
        block = ctypes.c_void_p()
        _abi.library.berth_memory_connection_receive(
            self._open(), _milliseconds(timeout), ctypes.byref(block)
        )
        return SharedBlock(self._runtime, block) if block else None

    def reclaim(self) -> int:
        """Frees the blocks that the other process has returned, and all if it has ended."""
        freed = ctypes.c_size_t()
        _abi.library.berth_memory_connection_reclaim(self._open(), ctypes.byref(freed))
        return freed.value

    @property
    def blocks_shared(self) -> int:
        """Blocks that were shared and not freed."""
        blocks = ctypes.c_size_t()
        _abi.library.berth_memory_connection_get_blocks_shared(self._open(), ctypes.byref(blocks))
        return blocks.value

    @property
    def is_open(self) -> bool:
        """Whether the other process has its end open, as observed by the latest call."""
        is_open = ctypes.c_bool()
        _abi.library.berth_memory_connection_is_open(self._open(), ctypes.byref(is_open))
        return is_open.value

    def close(self) -> None:
        """Closes the connection, and frees the blocks not returned. Repeated: no effect.

        A call in which another thread waits is woken: `receive()` returns None, and `share()`
        raises. Blocks that the other process has shared stay valid.
        """
        if not self._runtime.end(_CONNECTION, self):
            return
        _abi.library.berth_memory_connection_end(self._handle)
        failures = self._handle.failures
        self._handle = Owned.closed()  # closes the connection, unless another thread refers to it
        if failures:
            raise failures[0]

    def _open(self) -> ctypes.c_void_p:
        self._runtime.get()
        handle = self._handle
        if not handle:
            raise errors.InvalidArgument("the connection is closed")
        return handle

    def __enter__(self) -> MemoryConnection:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self, alive=ALIVE):
        if alive and getattr(self, "_handle", None):
            self.close()
