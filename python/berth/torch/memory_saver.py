# SPDX-License-Identifier: Apache-2.0
"""berth under torch_memory_saver: regions by tag, pause and resume, by pools that sleep.

    import berth.torch.memory_saver

    berth.torch.memory_saver.enable()  # before the first use of torch_memory_saver

From then on berth implements the package's `torch_memory_saver`, without its preloaded library.
"""

from __future__ import annotations

import collections.abc
import contextlib
import threading
import typing

import berth.torch
from berth import errors
from berth._arguments import checked, checked_flag

__all__ = ["Backend", "enable"]


class _Key(typing.NamedTuple):
    tag: str
    keeps_content: bool
    device: int


class _Unsupported:
    """The functions of the library that torch_memory_saver would load."""

    def __getattr__(self, name: str) -> typing.Any:
        raise errors.NotSupported(f"torch_memory_saver on berth has no {name.removeprefix('tms_')}")


class Backend:
    """The backend of torch_memory_saver: one pool for each tag, kind of backup, and device."""

    _is_xpu = False
    _binary_wrapper: typing.Any

    def __init__(self) -> None:
        self._torch = berth.torch._torch()
        self._binary_wrapper = type("Wrapper", (), {"cdll": _Unsupported()})()
        self._lock = threading.Lock()
        self._pools: dict[_Key, berth.torch.Pool] = {}
        self._open_regions = threading.local()

    @contextlib.contextmanager
    def region(
        self,
        tag: str,
        enable_cpu_backup: bool,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> collections.abc.Iterator[None]:
        """New tensors of the calling thread come from the pool of the tag."""
        checked(tag, str, "tag", "a str")
        checked_flag(enable_cpu_backup, "enable_cpu_backup")
        if enable_disk_backup:
            raise errors.NotSupported("berth keeps the content of a pool in host memory, not files")
        if cpu_backup_backend not in (None, "pinned"):
            raise errors.NotSupported(
                f'"cpu_backup_backend" is {cpu_backup_backend!r}; accepted: None, "pinned"'
            )
        key = _Key(tag, enable_cpu_backup, self._torch.cuda.current_device())
        if any(pool.pool.is_asleep for _, pool in self._of(tag)):
            raise errors.InvalidArgument(f'the memory of "{tag}" is paused; resume it first')
        pool = self._pool(key)
        regions = self._regions()
        regions.append(key)
        try:
            with pool.use():
                yield
        finally:
            regions.pop()

    @contextlib.contextmanager
    def disable(self) -> collections.abc.Iterator[None]:
        """Inside a region, allocates new tensors from memory that is never paused."""
        regions = self._regions()
        if not regions:
            raise errors.InvalidArgument("disable() is called outside of any region")
        with self._torch.cuda.use_mem_pool(self._torch.cuda.MemPool()):
            yield

    def pause(self, tag: str | None = None) -> None:
        """Releases the physical memory of a tag, or of all tags. Addresses stay reserved.

        InvalidArgument inside of a region of the tag, on any thread.
        """
        slept: list[berth.torch.Pool] = []
        try:
            for key, pool in self._of(tag):
                if pool.pool.is_asleep:
                    continue
                pool.sleep(keep_content=key.keeps_content)
                slept.append(pool)
        except errors.Error:
            for pool in slept:
                pool.wake()
            raise

    def resume(self, tag: str | None = None) -> None:
        """Maps the memory again, with its content if a backup was requested.

        If memory is short, some pools may be awake; the call can be repeated.
        """
        for _, pool in self._of(tag):
            pool.wake()

    def get_cpu_backup(self, _tensor: object, zero_copy: bool = False) -> typing.NoReturn:
        raise errors.NotSupported("the backup of a paused tensor cannot be read with berth")

    def cuda_graph(self, **_options: object) -> typing.NoReturn:
        raise errors.NotSupported("a CUDA graph whose memory is paused is not supported by berth")

    def _regions(self) -> list[_Key]:
        if not hasattr(self._open_regions, "keys"):
            self._open_regions.keys = []
        return self._open_regions.keys

    def _pool(self, key: _Key) -> berth.torch.Pool:
        with self._lock:
            if key not in self._pools:
                name = f"memory_saver {key.tag}"[:64]
                self._pools[key] = berth.torch.Pool(name, f"cuda:{key.device}")
            return self._pools[key]

    def _of(self, tag: str | None) -> list[tuple[_Key, berth.torch.Pool]]:
        with self._lock:
            return [(key, pool) for key, pool in self._pools.items() if tag in (None, key.tag)]


def enable() -> None:
    """Makes berth the backend of torch_memory_saver in this process. Repeated: no effect.

    Must be called before the first region, and without berth.torch.enable().
    """
    import torch_memory_saver

    saver = torch_memory_saver.torch_memory_saver
    if isinstance(saver._impl, Backend):
        return
    if saver._impl is not None:
        raise errors.InvalidArgument("torch_memory_saver has been used before: enable berth first")
    if berth.torch.is_enabled():
        raise errors.InvalidArgument(
            "berth is the allocator of all tensors: use berth.torch.runtime() and its pools"
        )
    saver._impl = Backend()
    berth.torch._State.is_saver = True
