# SPDX-License-Identifier: Apache-2.0
"""Where the threads of a hung process group are, before it is killed.

As much as the machine offers: what the kernel says of each thread; gdb, where it is; the handler of SIGQUIT
that libcampaign_stacks.so brings into a program; and Python's own, which prints on SIGABRT.
"""
import os
import pathlib
import shutil
import signal
import subprocess

PROC = pathlib.Path("/proc")
GDB_SECONDS = 20
SIGNAL_SECONDS = 2.0
TEXT_MAX = 65_536


def collect(group, read_for):
    """`read_for(seconds)` keeps reading what the group prints, which is kept with its other text."""
    parts = []
    for pid in processes_of(group):
        parts.append(f"process {pid}: {command_of(pid)}")
        parts.extend(kernel_view(pid))
        parts.append(gdb_view(pid))
    for asked in (signal.SIGQUIT, signal.SIGABRT):
        heard = [pid for pid in processes_of(group) if catches(pid, asked)]
        for pid in heard:
            send(pid, asked)
        if heard:
            parts.append(f"asked by {asked.name}, answers among the text: {', '.join(map(str, heard))}")
            read_for(SIGNAL_SECONDS)
    return "\n".join(filter(None, parts))[:TEXT_MAX]


def processes_of(leader):
    """Those of the group that a process leads, and what descends from them, which may lead groups of its own."""
    parents = {}
    found = set()
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (known := parent_and_group_of(folder)) is not None:
            parents[int(folder.name)] = known[0]
            if known[1] == leader:
                found.add(int(folder.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def parent_and_group_of(folder):
    try:
        # The name may have anything in it, so that what follows counts from its end: state, parent, group.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1]), int(fields[2])
    except (OSError, IndexError, ValueError):
        return None


def text_of(path):
    try:
        return path.read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def command_of(pid):
    return text_of(PROC / str(pid) / "cmdline")[:500]


def kernel_view(pid):
    """A line for each thread: its name, where it waits in the kernel, and the stack there, where we may see it."""
    for task in sorted((PROC / str(pid) / "task").glob("*"), key=lambda path: int(path.name)):
        wait = text_of(task / "wchan")
        stack = text_of(task / "stack").replace("\n", " < ")
        yield f"  thread {task.name} {text_of(task / 'comm')}: {wait if wait != '0' else 'runs'} {stack}".rstrip()


def gdb_view(pid):
    gdb = shutil.which("gdb")
    if gdb is None:
        return ""
    command = [gdb, "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace 24"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=GDB_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"  gdb: {error}"
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith(("Thread", "#")))


def catches(pid, asked):
    """Whether the process has a handler: without one the signal would end it, and say nothing."""
    for line in text_of(PROC / str(pid) / "status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (asked - 1) & 1)
    return False


def send(pid, asked):
    try:
        os.kill(pid, asked)
    except ProcessLookupError:
        pass
