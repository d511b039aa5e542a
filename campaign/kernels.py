# SPDX-License-Identifier: Apache-2.0
"""Compiles the campaign's kernels on the machine that runs them: by nvcc, or by NVRTC where a library is."""
import ctypes
import glob
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

COMPILER_SECONDS = 60
# The oldest that compilers of the last years know, which drivers translate for any newer device.
ARCHITECTURE = "compute_75"


@dataclass(frozen=True)
class Compiled:
    path: pathlib.Path | None  # PTX; None where there is no compiler, or it failed
    said: str


def compile_for(source, folder):
    target = folder / "kernels.ptx"
    said = []
    for way in (by_nvcc, by_nvrtc):
        problem, name = way(source, target)
        if problem is None:
            return Compiled(target, f"compiled by {name}")
        said.append(f"{name}: {problem}")
    return Compiled(None, "; ".join(said))


def by_nvcc(source, target):
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        return "not there", "nvcc"
    command = [nvcc, "-ptx", f"-arch={ARCHITECTURE}", "-o", str(target), str(source)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMPILER_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), "nvcc"
    return (None if done.returncode == 0 else done.stderr[-2000:]), "nvcc"


def nvrtc_libraries():
    """Paths, and names that the loader may know."""
    folders = ["/usr/local/cuda/lib64", *(f"{path}/nvidia/*/lib" for path in sys.path)]
    for folder in folders:
        yield from sorted(glob.glob(f"{folder}/libnvrtc.so.*"), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def by_nvrtc(source, target):
    for name in nvrtc_libraries():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return compile_with(library, source, target), os.path.basename(name)
    return "not there", "libnvrtc"


def compile_with(library, source, target):
    program = ctypes.c_void_p()
    options = [f"--gpu-architecture={ARCHITECTURE}".encode()]
    array = (ctypes.c_char_p * len(options))(*options)
    text = source.read_bytes()
    if library.nvrtcCreateProgram(ctypes.byref(program), text, source.name.encode(), 0, None, None) != 0:
        return "nvrtcCreateProgram fails"
    try:
        result = library.nvrtcCompileProgram(program, len(options), array)
        if result != 0:
            return content_of(library, "ProgramLog", program).decode(errors="replace")[-2000:]
        target.write_bytes(content_of(library, "PTX", program))
        return None
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def content_of(library, what, program):
    """Without the zero at its end."""
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value
