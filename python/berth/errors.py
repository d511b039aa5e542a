# SPDX-License-Identifier: Apache-2.0
"""The failures of berth as Python exceptions."""

from __future__ import annotations


class Error(RuntimeError):
    """A berth call failed. No state is lost, and later calls work."""

    #: The code of the driver or of a backend; 0 if no such call failed.
    driver_code: int = 0


class InvalidArgument(Error, ValueError):
    """An argument does not exist or is not accepted."""


class OutOfMemory(Error, MemoryError):
    """Out of device memory, pinned memory, or memory of the process."""


class NotSupported(Error, NotImplementedError):
    """The device or the driver does not support the operation."""


class DriverError(Error):
    """A driver call failed: `driver_code`."""


class InternalError(Error):
    """A bug of berth."""


class Exhausted(Error):
    """A bounded pool has reached its bound, and all its objects are leased."""


class StreamCaptured(Error):
    """The call is forbidden during the capture of a stream."""


class Cancelled(Error):
    """The operation was cancelled before it completed."""


class FileError(Error):
    """A file cannot be opened, read or written."""


class CallbackFailed(Error):
    """A function of the program returned a failure."""


class BackendError(Error):
    """A call of a backend failed: `driver_code`."""


#: By the number of `berth_status`; other numbers are Error.
BY_STATUS: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: OutOfMemory,
    3: NotSupported,
    4: DriverError,
    5: InternalError,
    6: Exhausted,
    7: StreamCaptured,
    8: Cancelled,
    9: FileError,
    10: CallbackFailed,
    11: BackendError,
}
