# SPDX-License-Identifier: Apache-2.0
"""Runs one program under a limit, in a process group of its own, and reads its output as it comes.

A program prints JSON objects, one a line, each a row of the results. All other output is kept as
text. Exit status 77 means that it cannot run here."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass

import processes

SKIPPED = 77
TEXT_KEPT = 16_384  # the last bytes of what is no row
LINE_MAX = 1 << 20  # a longer line is no row
# Nor is a row with more levels, which parsers of the results might refuse.
NESTED = re.compile(rb"(?:[\[{][^\[\]{}]*){65}")
# After a program has ended, for output that is still in its pipes.
DRAIN_SECONDS = 1.0
running = (
    set()
)  # process ids of the programs that this process runs: more than one if runs are nested


@dataclass(frozen=True)
class Ending:
    """How a program ended. `outcome`: done, skipped, failed, crashed, hung, or interrupted."""

    outcome: str
    seconds: float
    exit_status: int | None = None
    signal: str | None = None
    why: str = ""  # it counts as hung: it printed nothing for too long, or its time was over
    text: str = ""  # its output that is no row
    stacks: str = ""  # of its threads, if it hung

    def to_json(self):
        named = {"outcome": self.outcome, "seconds": round(self.seconds, 3)}
        more = {
            "exit_status": self.exit_status,
            "signal": self.signal,
            "why": self.why,
            "text": self.text,
            "stacks": self.stacks,
        }
        return named | {name: value for name, value in more.items() if value not in (None, "")}


class Pipes:
    """Standard output and error of a process, read without waiting for more data."""

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
        """Returns when data has arrived, or after `seconds`."""
        for key, _ in self.selector.select(max(seconds, 0)) if self.open else ():
            data = os.read(key.fd, 1 << 16)
            self.last_heard = time.monotonic()
            if not data:
                self.selector.unregister(key.fileobj)
                self._take(key.fileobj, self.open.pop(key.fileobj))
                continue
            *lines, rest = (self.open[key.fileobj] + data).split(b"\n")
            for line in lines:
                self._take(key.fileobj, line)
            if len(rest) > LINE_MAX:
                self._keep(rest)
                rest = b""
            self.open[key.fileobj] = rest

    def read_for(self, seconds):
        """Reads until `seconds` are over, or everything is read."""
        end = time.monotonic() + seconds
        while self.open and time.monotonic() < end:
            self.read(end - time.monotonic())

    def close(self):
        for pipe, rest in list(self.open.items()):
            self._take(pipe, rest)
        self.selector.close()

    def _take(self, pipe, line):
        if pipe is self.output and self.on_line is not None:
            self.on_line(line.decode(errors="replace"))
            return
        row = as_row(line) if pipe is self.output else None
        if row is not None:
            self.on_row(row)
        elif line.strip():
            self._keep(line)

    def _keep(self, line):
        self.text = (self.text + line[-TEXT_KEPT:] + b"\n")[-TEXT_KEPT:]


def as_row(line):
    """The JSON object in a line; None if it is not one."""
    if not line.startswith(b"{") or NESTED.search(line):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # a line that was cut off, no UTF-8, or nested too deeply
        return None


def run(
    command,
    *,
    seconds,
    on_row=lambda row: None,
    on_line=None,
    on_turn=lambda: None,
    on_hang=None,
    cwd=None,
    environment=None,
    silence=None,
    is_stopped=lambda: False,
):
    """Calls on_row(row) for each row, and on_turn() every now and then. `on_line`, if given, gets
    every line of the standard output, of which none is a row then. A program hangs if it runs for
    longer than `seconds`, or prints nothing for `silence` seconds: on_hang(pid, read_for) returns
    the stacks of its threads, while read_for(seconds) reads what it prints. Once is_stopped() the
    program is killed."""
    begin = time.monotonic()
    processes.adopt_orphans()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # libcampaign_stacks.so ends a program whose parent has been killed.
            env={
                **(os.environ if environment is None else environment),
                "BERTH_CAMPAIGN_PARENT": str(os.getpid()),
            },
            start_new_session=True,
        )
    except OSError as error:
        return Ending("failed", 0.0, text=f"{command[0]}: {error.strerror}")
    running.add(process.pid)
    stuck = found = ()
    with process.stdout, process.stderr:
        pipes = Pipes(process, on_row, on_line)
        family = (
            set()
        )  # of a program that hung, before it was asked for its stacks: some end of that
        try:
            early = watch(process, pipes, begin + seconds, silence, on_turn, is_stopped)
            if early not in (None, "interrupted"):
                family.update(processes.processes_of(process.pid, len(running) == 1))
                found = on_hang(process.pid, pipes.read_for) if on_hang is not None else ""
        finally:
            stuck = processes.end(process, family, len(running) == 1)
            running.discard(process.pid)
            pipes.read_for(DRAIN_SECONDS)
            pipes.close()
    text = pipes.text.decode(errors="replace")
    if stuck:
        text += f"cannot be killed: process {', '.join(map(str, stuck))}\n"
    took = time.monotonic() - begin
    if early == "interrupted":
        return Ending(early, took, text=text)
    if early is not None:
        return Ending("hung", took, why=early, text=text, stacks=found)
    return ended(process.returncode, took, text)


def ended(status, took, text):
    """The outcome of a program that ended by itself."""
    if status is None:  # it ended, and a process of its group cannot be waited for
        return Ending("failed", took, text=text)
    if status < 0:
        return Ending("crashed", took, signal=signal_name(-status), text=text)
    outcome = {0: "done", SKIPPED: "skipped"}.get(status, "failed")
    return Ending(outcome, took, exit_status=status, text=text)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals have none
        return f"signal {number}"


def watch(process, pipes, deadline, silence, on_turn, is_stopped):
    """Waits until the process has ended. Otherwise returns "interrupted", or how it hangs."""
    while not processes.has_ended(process):
        on_turn()
        if is_stopped():
            return "interrupted"
        until = deadline if silence is None else min(deadline, pipes.last_heard + silence)
        left = until - time.monotonic()
        if left <= 0 and until < deadline:  # this process may have been stopped meanwhile
            pipes.read(0)
            if pipes.last_heard + silence > time.monotonic():
                continue
        if left <= 0:
            return (
                "its time was over"
                if until == deadline
                else f"it printed nothing for {silence:.0f} s"
            )
        if pipes.open:
            pipes.read(min(left, 0.25))
        else:
            time.sleep(min(left, 0.05))
    return None
