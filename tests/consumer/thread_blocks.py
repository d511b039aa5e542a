# SPDX-License-Identifier: Apache-2.0
"""Loads all installed libraries into one process, after libraries of others that keep memory for
each thread where a program keeps its own (initial-exec), of which glibc has little for libraries
that are loaded later."""

import os
import shlex
import subprocess
import sys

NEIGHBORS = 16
NEIGHBOR_BYTES = 64
TOO_MANY_BYTES = 4096

LIBRARY = """\
__attribute__((tls_model("initial-exec"))) __thread char block[{bytes}];
char* block_of_thread(void) {{ return block; }}
"""

PROGRAM = """\
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** paths) {
  for (int index = 1; index < count; ++index) {
    if (dlopen(paths[index], RTLD_NOW | RTLD_LOCAL) != NULL) continue;
    printf("%s\\n", dlerror());
    return 1;
  }
  return 0;
}
"""


def _compile(cc, path, text, *flags):
    source = path.with_suffix(".c")
    source.write_text(text, encoding="utf-8")
    subprocess.run([*shlex.split(cc), *flags, source, "-o", path, "-ldl"], check=True)
    return path


def _loading_problem(program, libraries, environment):
    """What the loader says; empty if it loads all of them."""
    return subprocess.run(
        [program, *libraries],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout.strip()


def check(cc, folder, libraries, environment):
    """Exits with the problem, if there is one."""
    program = _compile(cc, folder / "loads", PROGRAM)
    shared = ("-shared", "-fPIC")
    neighbors = [
        _compile(
            cc, folder / f"neighbor{number}.so", LIBRARY.format(bytes=NEIGHBOR_BYTES), *shared
        )
        for number in range(NEIGHBORS)
    ]
    problem = _loading_problem(program, [*neighbors, *libraries], environment)
    if problem:
        sys.exit(f"{len(libraries)} libraries after {NEIGHBORS} of others: {problem}")
    # The same with a library that keeps too much, or the check above finds nothing.
    large = _compile(cc, folder / "large.so", LIBRARY.format(bytes=TOO_MANY_BYTES), *shared)
    if not _loading_problem(program, [*neighbors, large, *libraries], environment):
        print(f"this loader has room for {TOO_MANY_BYTES} B more")
