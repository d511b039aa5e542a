# SPDX-License-Identifier: Apache-2.0
"""Compiles the campaign's kernels on the machine that runs them, with nvcc or NVRTC, whichever
produces code that the driver accepts.

  kernels.py LIBRARY ARCHITECTURE SOURCE TARGET    compiles with NVRTC, whose library may crash
"""

from __future__ import annotations

import glob
import os
import pathlib
import shutil
import sys
import time
from dataclasses import dataclass

import program_run

# Drivers translate this for any newer device. A driver that is older than the compiler refuses it,
# and accepts code for the device itself.
PORTABLE = "compute_75"


@dataclass(frozen=True)
class Compiled:
    path: pathlib.Path | None  # None without a compiler, or if all failed
    said: str


def compile_for(source, folder, architecture, verify, seconds, is_stopped=lambda: False):
    """`architecture` is that of the device, "sm_90"; None if unknown. verify(path, seconds) returns
    what is wrong with the kernels, None if nothing. `seconds` are for all attempts; a compiler may
    take half of them, and has one attempt if it takes longer."""
    end = time.monotonic() + seconds
    environment = os.environ | {"TMPDIR": str(folder)}
    said = []
    for name, command in compilers():
        for target in filter(None, (architecture, PORTABLE)):
            left = end - time.monotonic()
            if left <= 0 or is_stopped():
                return Compiled(
                    None, "; ".join([*said, "interrupted" if is_stopped() else "no time was left"])
                )
            path = folder / f"{len(said)}.kernels"
            ending = program_run.run(
                command(target, source, path),
                seconds=min(seconds / 2, left),
                environment=environment,
                is_stopped=is_stopped,
            )
            if ending.outcome != "done" or not path.is_file():
                problem = ending.why or ending.text.strip()[-2000:] or ending.outcome
            else:
                problem = verify(path, max(end - time.monotonic(), 1.0))
            if problem is None:
                return Compiled(path, f"compiled by {name} for {target}")
            said.append(f"{name} for {target}: {problem}")
            if ending.outcome == "hung":
                break
    return Compiled(None, "; ".join(said) or "there is neither nvcc nor libnvrtc")


def compilers():
    """(name, command(architecture, source, target)) of each that is installed."""
    nvcc = next(filter(None, map(shutil.which, ["nvcc", *installed("bin/nvcc")])), None)
    if nvcc is not None:
        kind = {True: "-cubin", False: "-ptx"}
        yield (
            "nvcc",
            lambda architecture, source, target: [
                nvcc,
                kind[architecture.startswith("sm_")],
                f"-arch={architecture}",
                "-o",
                str(target),
                str(source),
            ],
        )
    for library in nvrtc_libraries():
        yield (
            pathlib.Path(library).name,
            lambda architecture, source, target, library=library: [
                sys.executable,
                "-B",
                os.path.abspath(__file__),
                library,
                architecture,
                str(source),
                str(target),
            ],
        )


def installed(pattern):
    """Files of a CUDA Toolkit, or of a wheel with parts of one."""
    homes = [
        os.environ.get("CUDA_HOME", ""),
        "/usr/local/cuda",
        *sorted(glob.glob("/usr/local/cuda-*"), reverse=True),
    ]
    homes += [
        home for path in sys.path for home in sorted(glob.glob(f"{path}/nvidia/*"), reverse=True)
    ]
    return [
        found
        for home in homes
        if home
        for found in sorted(glob.glob(f"{home}/{pattern}"), reverse=True)
    ]


def nvrtc_libraries():
    """One for each version: paths, or names that the loader may know."""
    paths = [*installed("lib64/libnvrtc.so.*"), *installed("lib/libnvrtc.so.*")]
    paths += [
        found for path in sys.path for found in sorted(glob.glob(f"{path}/torch/lib/libnvrtc*.so*"))
    ]
    paths += sorted(glob.glob(f"{sys.prefix}/lib/libnvrtc.so.*"), reverse=True)
    unique = {
        os.path.basename(path): path
        for path in reversed(paths)
        if "alt" not in os.path.basename(path)
    }
    for name in ("libnvrtc.so.13", "libnvrtc.so.12"):
        unique.setdefault(name, name)
    return [unique[name] for name in sorted(unique, reverse=True)]


def compile_with_nvrtc(name, architecture, source, target):
    """Returns the problem; None if there is none."""
    import ctypes

    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        return str(error)
    program = ctypes.c_void_p()
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
    text = source.read_bytes()
    if (
        library.nvrtcCreateProgram(ctypes.byref(program), text, source.name.encode(), 0, None, None)
        != 0
    ):
        return "nvrtcCreateProgram fails"

    def content_of(what):
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        getattr(library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    if library.nvrtcCompileProgram(program, len(options), options) != 0:
        return content_of("ProgramLog").rstrip(b"\0").decode(errors="replace")
    if architecture.startswith("sm_"):
        target.write_bytes(content_of("CUBIN"))
    else:
        target.write_bytes(content_of("PTX").rstrip(b"\0"))
    return None


def main():
    name, architecture, source, target = sys.argv[1:]
    problem = compile_with_nvrtc(name, architecture, pathlib.Path(source), pathlib.Path(target))
    if problem is not None:
        print(problem, file=sys.stderr)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
