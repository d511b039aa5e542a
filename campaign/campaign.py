#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures berth on this machine's GPU, part by part, and writes the results as JSON.

Each part has a time limit, and a result file that is written while it runs, so that an interrupted
campaign is worth something. A part that fails, crashes or hangs is noted, and the next one begins.
"""

import math
import os
import pathlib
import platform
import re
import resource
import signal
import sys
import tempfile
import time
import traceback

import arguments
import kernels
import program_run
import results
import stacks

# The part of the time for the stacks of a last program that hangs, and for the end.
AFTERWARDS_SHARE = 1 / 32
FACTS_SHARE = 1 / 16  # for a program that asks for one thing
KERNELS_SHARE = 1 / 8  # for compiling and trying the kernels
SECONDS_MIN = 1.0  # a program that asks is not begun with less
# The number of times that a program is resumed after it crashed or hung.
RESUMED_MAX = 20
# A program plans for less than its limit, so that it ends by itself.
SHARE_PLANNED = 0.8
QUICK_SECONDS = 1.0
# In a rehearsal the figures are meaningless, and a slow machine has this many times as long.
QUICK_PATIENCE = 10
# LD_PRELOAD and lists of paths are separated by spaces and colons.
PLAIN = re.compile(r"[\w./+@=,-]+", re.ASCII)
# Settings of the driver that change the results. Only parts that measure them set them.
NOT_PASSED_ON = (
    "BERTH_",
    "LD_PRELOAD",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_ENABLE_",
    "CUDA_COREDUMP_",
)


class Interruption:
    """The first signal that asked the campaign to end. Programs are in sessions of their own, which
    none reaches."""

    def __init__(self):
        self.number = None
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(each) != signal.SIG_IGN:  # as nohup does
                signal.signal(each, self.note)

    def note(self, number, _):
        self.number = self.number or number

    def has_come(self):
        return self.number is not None


def say(text):
    """The reader may have closed the output; the campaign continues."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")


def seconds_for_parts(minutes):
    return 60 * minutes * (1 - AFTERWARDS_SHARE)


def share_of(parts, seconds):
    """What each part gets of its time: less than all of it if the parts would take longer
    together."""
    total = sum(part["seconds"] for part in parts)
    return min(1.0, max(seconds, 1.0) / total)


def case_row(begun, ending):
    """Of a case that crashed or hung: one of a figure that it names, or of CUDA's semantics."""
    name = (
        {"figure": begun["figure"], "row": begun["begin"]}
        if "figure" in begun
        else {"case": begun["begin"]}
    )
    how = {"outcome": ending.outcome, "signal": ending.signal, "why": ending.why}
    return name | {key: value for key, value in how.items() if value}


def plain_path(folder, scratch):
    """A path of the folder that lists of paths can contain."""
    if PLAIN.fullmatch(str(folder)):
        return folder
    link = scratch / "bundle"
    link.symlink_to(folder, target_is_directory=True)
    return link


class Campaign:
    """The common state of all parts."""

    def __init__(self, options, about, scratch, interruption):
        self.bundle = plain_path(options.bundle.resolve(), scratch)
        self.about = about  # bundle.json
        self.out = options.out.resolve()
        self.scratch = scratch
        self.quick = options.quick
        self.patience = QUICK_PATIENCE if options.quick else 1
        self.minutes = options.minutes
        self.seconds = 60 * options.minutes * self.patience
        self.end = time.monotonic() + self.seconds  # of everything
        self.interruption = interruption
        self.kernels = None  # path of the compiled kernels
        self.answers = True  # bin/campaign_facts does, as far as known
        self.unsaved = []  # results of parts that could not be written

    def environment(self, seconds):
        """For a program of the bundle that has so many seconds. Other settings of berth are not
        passed on."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED_ON)
        }
        kept["BERTH_DRIVER"] = os.environ.get("BERTH_DRIVER", "cuda")
        if "BERTH_SIM" in os.environ and kept["BERTH_DRIVER"] == "sim":
            kept["BERTH_SIM"] = os.environ["BERTH_SIM"]
        limit = seconds * SHARE_PLANNED
        kept["BERTH_CAMPAIGN_LIMIT"] = f"{limit:.1f}"
        kept["BERTH_CAMPAIGN_SECONDS"] = f"{min(limit, QUICK_SECONDS) if self.quick else limit:.1f}"
        if self.quick:
            kept["BERTH_CAMPAIGN_QUICK"] = "1"
        if self.kernels is not None:
            kept["BERTH_CAMPAIGN_KERNELS"] = str(self.kernels)
        kept["TMPDIR"] = str(self.scratch)
        kept["PYTHONFAULTHANDLER"] = "1"
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
        kept["BERTH_BENCH_TRACES"] = str(self.bundle / "bench/traces")
        library = self.bundle / "lib/libcampaign_stacks.so"
        if library.is_file():
            kept["LD_PRELOAD"] = str(library)
        return kept

    def left(self):
        return self.end - time.monotonic()

    def stacks_of(self, pid, read_for):
        return stacks.collect(pid, read_for, min(stacks.SECONDS, max(self.left() - SECONDS_MIN, 0)))

    def run(self, command, seconds, **more):
        words = [sys.executable if word == "python3" else word for word in command]
        return program_run.run(
            words,
            seconds=seconds,
            cwd=self.bundle,
            environment=self.environment(seconds),
            on_hang=self.stacks_of,
            is_stopped=self.interruption.has_come,
            **more,
        )

    def ask(self, what, seconds=math.inf, **more):
        """The outcome of bin/campaign_facts, which is not run again after it has hung."""
        seconds = min(seconds, max(self.seconds * FACTS_SHARE, SECONDS_MIN), self.left())
        if not self.answers or seconds < SECONDS_MIN:
            return program_run.Ending("cut short", 0.0, text="bin/campaign_facts does not answer")
        ending = self.run(["bin/campaign_facts", what], seconds, **more)
        self.answers = ending.outcome != "hung"
        return ending

    def memory(self):
        """The numbers that bin/campaign_facts prints about the device and its memory."""
        found = {}
        self.ask("--memory", on_row=found.update)
        return {name: value for name, value in found.items() if isinstance(value, int)}

    def problem_with(self, compiled, seconds):
        """The problem of compiled kernels; None if there is none, or kernels cannot run here."""
        self.kernels = compiled
        ending = self.ask("--kernels", seconds)
        self.kernels = None
        return (
            None
            if ending.outcome in ("done", "skipped")
            else ending.text.strip()[-2000:] or ending.outcome
        )

    def compile_kernels(self, device):
        major, minor = device.get("compute_major", 0), device.get("compute_minor", 0)
        architecture = f"sm_{major}{minor}" if major > 0 else None
        source = self.bundle / "kernels/kernels.cu"
        if not source.is_file():
            return "the bundle has no kernels"
        compiled = kernels.compile_for(
            source,
            self.scratch,
            architecture,
            self.problem_with,
            min(self.seconds * KERNELS_SHARE, max(self.left(), 0)),
            self.interruption.has_come,
        )
        self.kernels = compiled.path
        return compiled.said

    def write_summary(self, summary):
        """Returns the problem; None if there is none."""
        try:
            results.write_json(self.out / "campaign.json", summary)
            return None
        except OSError as error:
            return f"{self.out / 'campaign.json'}: {error.strerror}"

    def run_program(self, program, share, deadline, result):
        """In its share of the time that it wants. If it can be resumed, it goes on after the case
        in which it crashed or hung."""
        begun, last = 0, None  # cases: how many, and the last one
        is_resumed = "resume" in program
        silence = self.patience * program["silence"] if "silence" in program else None

        def on_row(row):
            nonlocal begun, last
            if is_resumed and "begin" in row:
                begun, last = begun + 1, row
            else:
                result.add_row(program["name"], row)

        end = min(
            deadline,
            time.monotonic() + self.patience * share * program.get("seconds", float("inf")),
        )
        for _ in range(RESUMED_MAX):
            seconds = end - time.monotonic()
            if seconds <= 0:
                break
            known = begun
            ending = self.run(
                program["command"] + ([program["resume"].format(next=known + 1)] if known else []),
                seconds,
                on_row=on_row,
                on_turn=result.save_in_time,
                silence=silence,
            )
            result.add_program(program["name"], ending)
            if ending.outcome not in ("crashed", "hung") or begun == known:
                return
            result.add_row(program["name"], case_row(last, ending))
        why = (
            "no time was left" if end <= time.monotonic() else f"it was resumed {RESUMED_MAX} times"
        )
        result.add_program(program["name"], program_run.Ending("cut short", 0.0, text=why))

    def run_part(self, part, share):
        result = results.PartResult(self.out / f"{part['name']}.json", part["name"])
        deadline = time.monotonic() + part["seconds"] * share * self.patience
        for program in part["programs"]:
            if self.interruption.has_come():
                result.interrupt()
                break
            try:
                self.run_program(program, share, deadline, result)
            except Exception:  # one that nobody has thought of must not end the others
                text = traceback.format_exc()
                result.add_program(program["name"], program_run.Ending("failed", 0.0, text=text))
        outcome = result.finish()
        if result.problem is not None:
            self.unsaved.append(result)
        say(f"   {outcome} in {result.seconds():.1f} s")
        return outcome

    def run_all(self, parts):
        """Returns the outcome of each part, and the results that could not be written."""
        end = time.monotonic() + seconds_for_parts(self.minutes)
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        device = self.memory()
        summary = {
            "bundle": self.about,
            "machine": {
                "host": platform.platform(),
                "python": platform.python_version(),
                "cpus": os.cpu_count(),
            },
            "driver": os.environ.get("BERTH_DRIVER", "cuda"),
            "began": began,
            "quick": self.quick,
            "minutes": self.minutes,
            "kernels": self.compile_kernels(device),
            "bytes_free_before": device.get("bytes_free"),
            "parts": {},
        }
        for number, part in enumerate(parts, 1):
            self.write_summary(summary)
            if self.interruption.has_come():
                break
            share = 1.0 if self.quick else share_of(parts[number - 1 :], end - time.monotonic())
            seconds = part["seconds"] * share * self.patience
            say(f"{number} of {len(parts)}: {part['name']}, {seconds:.0f} s at most")
            summary["parts"][part["name"]] = self.run_part(part, share)
        if self.interruption.has_come():
            summary["interrupted"] = program_run.signal_name(self.interruption.number)
        else:
            summary["bytes_free_after"] = self.memory().get("bytes_free")
        summary["ended"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for result in self.unsaved:
            result.save()
        problems = [result.problem for result in self.unsaved if result.problem is not None]
        if problems:
            summary["not_written"] = problems
        problem = self.write_summary(summary)
        return summary["parts"], problems + ([problem] if problem is not None else [])


def scratch_folder(out):
    try:
        return tempfile.TemporaryDirectory(prefix="campaign-")
    except OSError:  # no folder for temporary files can be written
        return tempfile.TemporaryDirectory(dir=out, prefix=".")


def main():
    options = arguments.parse((__doc__ or "").partition("\n\n")[0])
    parts = arguments.chosen(options)
    if options.list:
        share = share_of(parts, seconds_for_parts(options.minutes))
        for part in parts:
            say(f"{part['name']:12} {share * part['seconds']:4.0f} s  {part['says']}")
        return 0
    interruption = Interruption()
    about = arguments.read_about(options.bundle / "bundle.json")
    arguments.check_glibc(about.get("glibc", "0"))
    arguments.prepare(options.out)
    # A core file of a program that crashes would be gigabytes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with scratch_folder(options.out.resolve()) as scratch:
        campaign = Campaign(options, about, pathlib.Path(scratch).resolve(), interruption)
        outcomes, problems = campaign.run_all(parts)
    for problem in problems:
        print(f"campaign: a result could not be written: {problem}", file=sys.stderr)
    if interruption.has_come():
        return 128 + interruption.number
    found = set(outcomes.values())
    if found == {"skipped"}:
        print("campaign: nothing was measured: no part could run here", file=sys.stderr)
    return 0 if found <= {"done", "skipped"} and found != {"skipped"} and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
