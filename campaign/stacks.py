# SPDX-License-Identifier: Apache-2.0
"""The stacks of a hung program, before it is killed.

As much as the machine offers: the kernel's view of each thread; gdb, if it is installed; the
SIGQUIT handler that libcampaign_stacks.so installs in every program; and Python's own on SIGABRT.
"""

import shutil
import signal
import time

import processes
import program_run

SECONDS = 10.0  # for all processes together
SIGNAL_SECONDS = 2.0  # for the answers to each signal
TEXT_MAX = 65_536
PROCESSES_MAX = 64  # of a program that keeps making more


def collect(leader, read_for, seconds=SECONDS):
    """Takes about `seconds` at most. `read_for(seconds)` keeps reading what the program prints,
    which is kept with its other text."""
    parts = []
    end = time.monotonic() + seconds
    family = processes.processes_of(leader, len(program_run.running) == 1)[:PROCESSES_MAX]
    gdb_end = end - 2 * SIGNAL_SECONDS
    for pid in family:
        parts.append(f"process {pid}: {command_of(pid)}")
        parts.extend(kernel_view(pid))
        parts.append(gdb_view(pid, gdb_end - time.monotonic()))
    for asked in (signal.SIGQUIT, signal.SIGABRT):
        heard = [pid for pid in family if processes.is_running(pid) and catches(pid, asked)]
        for pid in heard:
            processes.send(pid, asked)
        if heard:
            parts.append(f"answers to {asked.name} are in the text: {', '.join(map(str, heard))}")
            read_for(min(SIGNAL_SECONDS, max(end - time.monotonic(), 0)))
    return "\n".join(filter(None, parts))[:TEXT_MAX]


def text_of(path):
    try:
        return path.read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def command_of(pid):
    return text_of(processes.PROC / str(pid) / "cmdline")[:500]


def kernel_view(pid):
    """A line for each thread: its name, where it waits in the kernel, and its stack there, if we
    may read that."""
    for task in sorted(
        (processes.PROC / str(pid) / "task").glob("*"), key=lambda path: int(path.name)
    ):
        wait = text_of(task / "wchan")
        stack = text_of(task / "stack").replace("\n", " < ")
        state = wait if wait != "0" else "runs"
        yield f"  thread {task.name} {text_of(task / 'comm')}: {state} {stack}".rstrip()


def gdb_view(pid, seconds):
    gdb = shutil.which("gdb")
    if gdb is None or seconds <= 0:
        return ""
    lines = []
    command = [gdb, "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace 24"]
    ending = program_run.run(command, seconds=seconds, on_line=lines.append)
    if ending.outcome == "hung":
        return f"  gdb: no answer in {seconds:.0f} s"
    return "\n".join(line for line in lines if line.startswith(("Thread", "#")))


def catches(pid, asked):
    """Whether the process handles the signal, which would otherwise end it without output."""
    for line in text_of(processes.PROC / str(pid) / "status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (asked - 1) & 1)
    return False
