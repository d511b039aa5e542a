# SPDX-License-Identifier: Apache-2.0
"""Runs one program under a limit, in a process group of its own, and reads what it prints as it comes.

A program prints JSON objects, one a line, each a row of the results. Whatever else it prints is kept as text.
Exit status 77 says that it cannot run here.
"""
import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass

import stacks

SKIPPED = 77
TEXT_KEPT = 16_384  # bytes of what is no row, the last ones
# Behind the end of a program that left children of its own: they hold its pipes, and are killed.
DRAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Ending:
    """How a program ended. `outcome`: done, skipped, failed, crashed, or hung."""

    outcome: str
    seconds: float
    exit_status: int | None = None
    signal: str | None = None
    text: str = ""  # what it printed that is no row
    stacks: str = ""  # of its threads, where it hung

    def to_json(self):
        named = {"outcome": self.outcome, "seconds": round(self.seconds, 3)}
        more = {"exit_status": self.exit_status, "signal": self.signal, "text": self.text, "stacks": self.stacks}
        return named | {name: value for name, value in more.items() if value not in (None, "")}


class Pipes:
    """Standard output and error of a process, without ever waiting for more than is there."""

    def __init__(self, process, on_row, on_line):
        self.on_row = on_row
        self.on_line = on_line
        self.text = b""
        self.open = {process.stdout: b"", process.stderr: b""}
        self.output = process.stdout
        self.last_heard = time.monotonic()
        self.selector = selectors.DefaultSelector()
        for pipe in self.open:
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_READ)

    def read(self, seconds):
        """Returns once something has come, or after `seconds`."""
        for key, _ in self.selector.select(max(seconds, 0)) if self.open else ():
            data = os.read(key.fd, 1 << 16)
            self.last_heard = time.monotonic()
            if not data:
                self.selector.unregister(key.fileobj)
                self._take(key.fileobj, self.open.pop(key.fileobj) + b"\n")
                continue
            *lines, self.open[key.fileobj] = (self.open[key.fileobj] + data).split(b"\n")
            self._take(key.fileobj, b"\n".join([*lines, b""]))

    def read_for(self, seconds):
        """Reads until `seconds` are over, or all is read."""
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end:
            self.read(end - time.monotonic())

    def close(self):
        for pipe, rest in list(self.open.items()):
            self._take(pipe, rest + b"\n")
        self.selector.close()

    def _take(self, pipe, data):
        for line in data.split(b"\n"):
            if pipe is self.output and self.on_line is not None:
                self.on_line(line.decode(errors="replace"))
                continue
            row = as_row(line) if pipe is self.output else None
            if row is not None:
                self.on_row(row)
            elif line.strip():
                self.text = (self.text + line + b"\n")[-TEXT_KEPT:]


def as_row(line):
    """The object that a line is; None where it is none."""
    if not line.startswith(b"{"):
        return None
    try:
        return json.loads(line)
    except ValueError:  # a line that was cut off, or no UTF-8
        return None


def run(command, *, seconds, on_row=lambda row: None, on_line=None, on_turn=lambda: None, cwd=None, environment=None, silence=None):
    """Calls on_row(row) for each row, and on_turn() every now and then. `on_line`, where it is given, has every line
    of the standard output, of which none is a row then. `silence`: a program that prints nothing for so many
    seconds hangs."""
    begin = time.monotonic()
    try:
        process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Ending("failed", 0.0, text=f"{command[0]}: {error.strerror}")
    with process.stdout, process.stderr:
        pipes = Pipes(process, on_row, on_line)
        family = set()  # of a program that hung, before it was asked for its stacks: some end of that
        try:
            hung = watch(process, pipes, begin + seconds, silence, on_turn)
            family.update(stacks.processes_of(process.pid) if hung else ())
            found = stacks.collect(process.pid, pipes.read_for) if hung else ""
        finally:  # also where the campaign is interrupted
            kill(process, family)
            pipes.read_for(DRAIN_SECONDS)
            pipes.close()
    text = pipes.text.decode(errors="replace")
    took = time.monotonic() - begin
    if hung:
        return Ending("hung", took, text=text, stacks=found)
    status = process.returncode
    if status < 0:
        return Ending("crashed", took, signal=signal.Signals(-status).name, text=text)
    outcome = {0: "done", SKIPPED: "skipped"}.get(status, "failed")
    return Ending(outcome, took, exit_status=status, text=text)


def watch(process, pipes, deadline, silence, on_turn):
    """Until the process has ended, or has hung: whether it has."""
    while process.poll() is None:
        on_turn()
        until = deadline if silence is None else min(deadline, pipes.last_heard + silence)
        left = until - time.monotonic()
        if left <= 0:
            return True
        if pipes.open:
            pipes.read(min(left, 0.5))
        else:
            time.sleep(min(left, 0.05))
    return False


def kill(process, family):
    """The process leads its group, whose number stays its own as long as any of it is there. What a program of the
    group has started in groups of their own goes with it."""
    for pid in family.union(stacks.processes_of(process.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
