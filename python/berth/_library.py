# SPDX-License-Identifier: Apache-2.0
"""Finds libberth and the libraries beside it."""

from __future__ import annotations

import ctypes
import os
import pathlib

FILE = "libberth.so.0"
VARIABLE = "BERTH_LIBRARY"


def _load() -> ctypes.CDLL:
    """Loads the file named by BERTH_LIBRARY, else the one in the wheel, else the loader's."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        try:
            loaded = ctypes.CDLL(chosen)
        except OSError as error:
            raise ImportError(f"{VARIABLE}: {error}") from None
        if not hasattr(loaded, "berth_version"):
            raise ImportError(f"{VARIABLE}: {chosen} is not {FILE}")
        return loaded
    own = pathlib.Path(__file__).parent / "lib" / FILE
    if own.exists():
        return ctypes.CDLL(str(own))
    try:
        return ctypes.CDLL(FILE)
    except OSError as error:
        raise ImportError(
            f"{FILE} was not found in {own.parent}, nor by the loader ({error}); accepted: the "
            f"wheel, an installed library, or its path in the environment variable {VARIABLE}"
        ) from None


library = _load()


class _Place(ctypes.Structure):
    """Dl_info."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def folder() -> pathlib.Path:
    """The folder of the library that was loaded."""
    place = _Place()
    address = ctypes.cast(library.berth_version, ctypes.c_void_p)
    if not ctypes.CDLL(None).dladdr(address, ctypes.byref(place)) or not place.file:
        raise ImportError(f"the loader does not report the path of {FILE}")
    return pathlib.Path(os.fsdecode(place.file)).parent


def beside(file: str) -> str:
    """Returns the path of another library that is installed beside libberth."""
    for place in (folder() / file, folder().parent / "adapters" / file):
        if place.exists():
            return str(place)
    raise ImportError(f"{file} was not found in {folder()}, beside {FILE}")
