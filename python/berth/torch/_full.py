# SPDX-License-Identifier: Apache-2.0
"""Compiles the allocator of PyTorch's own kind, for the PyTorch that is installed.

The folder `full` has its sources. The library is kept below XDG_CACHE_HOME, by what it was made of.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import types
import typing

from berth import errors

FOLDER = pathlib.Path(__file__).parent / "full"
NAME = "libberth_torch_full.so"
#: kMemoryFunctionsVersion of full/memory_functions.hpp.
VERSION = 2


def enable(torch: types.ModuleType, library: ctypes.CDLL) -> None:
    """Makes it the allocator of the process."""
    library.berth_torch_functions.restype = ctypes.c_void_p
    functions = library.berth_torch_functions(VERSION)
    if not functions:
        raise errors.NotSupported(f"{library._name} is of another version than the Python module")
    full = ctypes.CDLL(str(_built(torch)))
    reason = ctypes.create_string_buffer(1000)
    if full.berth_torch_enable_full(ctypes.c_void_p(functions), reason, len(reason)) != 0:
        raise RuntimeError(reason.value.decode(errors="replace"))


def _built(torch: types.ModuleType) -> pathlib.Path:
    """The path of the library, which is compiled if there is none."""
    command = _command(torch)
    key = hashlib.sha256("\0".join([torch.__version__, str(torch.version.git_version)]).encode())
    key.update("\0".join(command).encode())
    for path in sorted(FOLDER.iterdir()):
        key.update(path.read_bytes())
    target = _cache() / f"torch-{torch.__version__}-{key.hexdigest()[:16]}" / NAME
    if not target.exists():
        _compile(command, target, torch)
    return target


def _cache() -> pathlib.Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return pathlib.Path(chosen or pathlib.Path.home() / ".cache") / "berth"


def _command(torch: types.ModuleType) -> list[str]:
    root = pathlib.Path(torch.__file__).parent
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if not compiler or shutil.which(compiler[0]) is None:
        raise errors.NotSupported(
            "the full allocator is compiled for the installed PyTorch, and there is no "
            f'"{compiler[0] if compiler else ""}"; accepted: a C++20 compiler that the '
            "environment variable CXX names, or g++ if it is unset"
        )
    if not torch._C._GLIBCXX_USE_CXX11_ABI:
        raise errors.NotSupported(f"PyTorch {torch.__version__} has the old ABI of std::string")
    return [
        *compiler,
        *("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-shared"),
        *("-isystem", str(root / "include"), "-isystem", str(_cuda_headers(torch, root))),
        *(str(path) for path in sorted(FOLDER.glob("*.cpp"))),
        *(f"-L{root / 'lib'}", "-lc10_cuda", "-lc10"),
    ]


def _cuda_headers(torch: types.ModuleType, root: pathlib.Path) -> pathlib.Path:
    """The headers of PyTorch's own CUDA, or of the Toolkit."""
    major = str(torch.version.cuda).partition(".")[0]
    packages = root.parent / "nvidia"
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    places = (packages / f"cu{major}", packages / "cuda_runtime", toolkit)
    for place in places:
        if (place / "include/cuda_runtime_api.h").exists():
            return place / "include"
    raise errors.NotSupported(
        "cuda_runtime_api.h was not found; accepted: the package nvidia-cuda-runtime beside "
        "PyTorch, or a CUDA Toolkit that the environment variable CUDA_HOME names"
    )


def _compile(command: list[str], target: pathlib.Path, torch: typing.Any) -> None:
    # Several processes may start at the same time: each compiles, and one of the results is kept.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=target.parent)
    except OSError as error:
        raise errors.NotSupported(
            f"the full allocator cannot be kept in {target.parent}: {error.strerror}; accepted: "
            "XDG_CACHE_HOME names a folder that can be written"
        ) from None
    with temporary as folder:
        made = pathlib.Path(folder) / NAME
        done = subprocess.run(
            [*command, "-o", str(made)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "error" in line]
            raise errors.NotSupported(
                f"the full allocator cannot be compiled for PyTorch {torch.__version__}: "
                + (said or done.stderr.splitlines() or ["no message"])[0]
            )
        os.replace(made, target)
