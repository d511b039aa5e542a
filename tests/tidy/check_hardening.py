#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every program and library below a folder, such as an installed tree, against the hardening
of Linux distributions, and against what a library may keep for each thread.

  check_hardening.py FOLDER...

A file is independent of its position and bound when it is loaded, its relocations are read-only
then, and no memory is writable and executable. It is compiled with the stack protector and with
fortified functions, unless it calls nothing of the C library: a look-alike is names and jumps.
Prints `file: problem` for each violation; exit status 1 if there is one, or nothing to check.
"""

import pathlib
import re
import subprocess
import sys

ELF = b"\x7fELF"
ARCHIVE = b"!<arch>\n"
# What libraries keep for each thread is reached as only a program's own may be, for speed: a
# library that is loaded later gets it out of what glibc keeps for all of them, 1,664 bytes.
STATIC_THREAD_BYTES_MAX = 256
STACK_CHECK = "__stack_chk_fail"


def wanted_symbols(readelf_output):
    """`readelf -sW`: the names of undefined symbols that are not weak, without their versions."""
    for line in readelf_output.splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[6] == "UND" and columns[4] == "GLOBAL":
            yield columns[7].partition("@")[0]


def compiled_problems(symbols):
    """`symbols` that a file, or any object of an archive, wants."""
    of_others = {name for name in symbols if not name.startswith("berth")}
    if not of_others:
        return
    if STACK_CHECK not in of_others:
        yield "no stack protector; accepted: -fstack-protector-strong"
    if not any(name.endswith("_chk") for name in of_others):
        yield "no fortified function; accepted: -D_FORTIFY_SOURCE=2"


def linked_problems(readelf_output):
    """`readelf -hdlW` of a program or a shared library."""
    if not re.search(r"^\s*Type:\s+DYN", readelf_output, re.M):
        yield "at a fixed position; accepted: -pie"
    if not re.search(r"\((?:FLAGS|FLAGS_1|BIND_NOW)\).*NOW", readelf_output):
        yield "lazy binding; accepted: -z now"
    if "GNU_RELRO" not in readelf_output:
        yield "writable relocations; accepted: -z relro"
    if "(TEXTREL)" in readelf_output or re.search(r"\(FLAGS\).*TEXTREL", readelf_output):
        yield "relocations of code; accepted: -fPIC"
    if re.search(r"^\s*\w+(?:\s+0x[0-9a-f]+){5}\s+RWE", readelf_output, re.M):
        yield "memory that is writable and executable; accepted: -z noexecstack"


def static_thread_bytes(readelf_output):
    """`readelf -dlW`: what a library keeps of the memory that is the same for all threads."""
    if not re.search(r"\(FLAGS\).*STATIC_TLS", readelf_output):
        return 0
    size = re.search(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", readelf_output, re.M)
    return int(size.group(1), 16) if size else 0


def thread_problems(bytes_of):
    """`bytes_of` maps libraries, which one process may load, to their static_thread_bytes()."""
    total = sum(bytes_of.values())
    if total > STATIC_THREAD_BYTES_MAX:
        those = ", ".join(f"{name} {size}" for name, size in bytes_of.items() if size)
        yield (
            f"{total} B for each thread ({those}), more than {STATIC_THREAD_BYTES_MAX}: dlopen may "
            "fail; accepted: thread_local without initial-exec"
        )


def checked_files(folder):
    """Pairs of each file to check, and its kind."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                begin = file.read(8)
            if begin == ARCHIVE or begin.startswith(ELF):
                yield path, ARCHIVE if begin == ARCHIVE else ELF


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    found = []
    thread_bytes = {}
    count = 0
    for folder in map(pathlib.Path, sys.argv[1:]):
        for path, kind in checked_files(folder):
            count += 1
            name = path.relative_to(folder)
            symbols = set(wanted_symbols(output_of("readelf", "-sW", path)))
            found += [f"{name}: {problem}" for problem in compiled_problems(symbols)]
            if kind == ELF:
                linked = output_of("readelf", "-hdlW", path)
                found += [f"{name}: {problem}" for problem in linked_problems(linked)]
                thread_bytes[str(name)] = static_thread_bytes(linked)
    found += thread_problems(thread_bytes)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
