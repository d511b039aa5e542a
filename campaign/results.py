# SPDX-License-Identifier: Apache-2.0
"""The result files of a campaign, each of which is complete at any moment."""

import json
import math
import os
import re
import time

FILES_MAX = 8  # with campaign.json
BYTES_MAX = 15 << 20  # of one file: 16 MiB may be the most that is copied back
BYTES_FOR_PROGRAMS = 3 << 20  # of BYTES_MAX: how the programs ended, with their text and stacks
SURROGATE = re.compile(r"\\ud[89a-f]")
SAVE_SECONDS = 1.0  # how much an interrupted campaign may lose


def write(path, text):
    """Replaces the file at once. Raises OSError: the file is as before."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)  # of a full disk the space is needed for the next attempt
        raise


def to_text(content, indent=None):
    """JSON that every parser accepts, whatever a program has printed."""
    try:
        text = json.dumps(content, indent=indent, allow_nan=False)
    except ValueError:  # NaN or an infinity
        text = json.dumps(strict(content), indent=indent)
    return json.dumps(strict(content), indent=indent) if SURROGATE.search(text) else text


def strict(value):
    """With "nan" and "inf" as text, and without half a surrogate pair."""
    if isinstance(value, dict):
        return {strict(name): strict(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path, content):
    write(path, to_text(content, indent=1) + "\n")


class PartResult:
    """What one part has found so far: its rows, and how its programs ended. A file that cannot be
    written is tried again with the next results; `problem` says why the last attempt failed."""

    def __init__(self, path, name):
        self.path = path
        self.name = name
        self.outcome = "interrupted"
        self.problem = None
        self.outcomes = set()
        self.begin = time.monotonic()
        # As text: a part may have many rows, and is saved often.
        self.rows, self.programs = [], []
        self.bytes_left = {"rows": BYTES_MAX - BYTES_FOR_PROGRAMS, "programs": BYTES_FOR_PROGRAMS}
        self.left_out = {"rows": 0, "programs": 0}
        self.save()

    def add_row(self, program, row):
        self._add("rows", self.rows, {"program": program} | row)
        self.is_saved = False
        self.save_in_time()

    def save_in_time(self):
        """Call it occasionally."""
        if not self.is_saved and time.monotonic() - self.saved_at > SAVE_SECONDS:
            self.save()

    def add_program(self, name, ending):
        self.outcomes.add(ending.outcome)
        self._add("programs", self.programs, {"program": name} | ending.to_json())
        self.save()

    def _add(self, kind, lines, content):
        line = to_text(content)
        size = len(line) + 4
        if size > self.bytes_left[kind]:
            self.left_out[kind] += 1
        else:
            self.bytes_left[kind] -= size
            lines.append(line)

    def interrupt(self):
        """Some of its programs have not run."""
        self.outcomes.add("interrupted")

    def finish(self):
        """Returns the worst outcome of the programs."""
        worst_first = ("interrupted", "crashed", "hung", "failed", "cut short", "done", "skipped")
        self.outcome = next((each for each in worst_first if each in self.outcomes), "skipped")
        self.save()
        return self.outcome

    def seconds(self):
        return round(time.monotonic() - self.begin, 3)

    def save(self):
        head = {"part": self.name, "outcome": self.outcome, "seconds": self.seconds()}
        head |= {f"{kind}_left_out": count for kind, count in self.left_out.items() if count > 0}
        lists = [f'"{kind}": [\n' + ",\n".join(lines) + "\n]" for kind, lines in
                 (("programs", self.programs), ("rows", self.rows))]  # fmt: skip
        self.saved_at = time.monotonic()
        try:
            write(self.path, ",\n".join([json.dumps(head)[:-1], *lists]) + "}\n")
            self.is_saved, self.problem = True, None
        except OSError as error:
            self.is_saved, self.problem = False, f"{self.path}: {error.strerror}"
