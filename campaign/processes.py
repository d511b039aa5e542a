# SPDX-License-Identifier: Apache-2.0
"""The processes that a program has started, and how they are ended: none outlives its program,
whatever group or session it has moved to."""

import os
import pathlib
import signal
import subprocess
import time

PROC = pathlib.Path("/proc")
# A process that waits inside a kernel driver cannot be killed until that wait ends, which may be
# never.
KILL_SECONDS = 3.0
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """From now on a descendant whose parent ends becomes a child of this process, so that it is
    found. Without ctypes, only members of the program's group and descendants of those are
    found."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def stat_of(pid):
    """(state, parent, group) of a process; None if it does not exist."""
    try:
        # The name may contain anything, so the fields are counted from its end.
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
        state, parent, group = text.rpartition(")")[2].split()[:3]
        return state, int(parent), int(group)
    except (OSError, ValueError):
        return None


def children():
    """Of this process."""
    known = {
        int(folder.name): stat_of(folder.name) for folder in PROC.iterdir() if folder.name.isdigit()
    }
    return {pid for pid, stat in known.items() if stat is not None and stat[1] == os.getpid()}


# The program that became this one by exec() may have had children.
OTHERS = children()


def is_running(pid):
    found = stat_of(pid)
    return found is not None and found[0] not in "ZX"


def processes_of(leader, adopted=False):
    """The running processes of the group that `leader` leads, their descendants, and with `adopted`
    all other descendants of this process."""
    known = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (stat := stat_of(folder.name)) is not None:
            known[int(folder.name)] = stat
    found = {pid for pid, (_, _, group) in known.items() if group == leader}
    if adopted:
        found.update(
            pid
            for pid, (_, parent, _) in known.items()
            if parent == os.getpid() and pid not in OTHERS
        )
    while more := {pid for pid, (_, parent, _) in known.items() if parent in found} - found:
        found |= more
    return sorted(pid for pid in found if known[pid][0] not in "ZX")


def has_ended(process):
    """Does not collect the exit status: until that is collected, no other process can have the
    number."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end(process, family, adopted):
    """Kills the process, its group, `family`, and what descends from them, and collects the exit
    status. Returns the processes that could not be killed."""
    deadline = time.monotonic() + KILL_SECONDS
    killed = set(family)
    while left := {*processes_of(process.pid, adopted), *filter(is_running, family)}:
        killed |= left
        for pid in left:
            send(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    try:
        process.wait(timeout=max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass
    for pid in killed - {process.pid}:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return sorted(left)


def send(pid, number):
    """A process of another user, such as a setuid helper of the driver, ends by itself or stays."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
