# SPDX-License-Identifier: Apache-2.0
"""The result files of a campaign, each of which is whole at any moment."""
import json
import os
import time

BYTES_MAX = 12 << 20  # of one file: well below the 16 MiB that may be the most that travels back
SAVE_SECONDS = 1.0  # how much of a campaign may be lost that is interrupted


def write(path, content):
    """Replaces the file at once."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


class PartResult:
    """What one part has found so far: its rows, and how its programs ended."""

    def __init__(self, path, name):
        self.path = path
        self.content = {"part": name, "outcome": "interrupted", "seconds": 0.0, "programs": [], "rows": []}
        self.begin = time.monotonic()
        self.bytes_left = BYTES_MAX
        self.save()

    def add_row(self, program, row):
        row = {"program": program} | row
        self.bytes_left -= len(json.dumps(row, indent=1)) + 64
        if self.bytes_left < 0:
            self.content["rows_left_out"] = self.content.get("rows_left_out", 0) + 1
        else:
            self.content["rows"].append(row)
        self.is_saved = False
        self.save_in_time()

    def save_in_time(self):
        """To be called now and then."""
        if not self.is_saved and time.monotonic() - self.saved_at > SAVE_SECONDS:
            self.save()

    def add_program(self, name, ending):
        self.content["programs"].append({"program": name} | ending.to_json())
        self.save()

    def finish(self):
        """Returns the outcome: that of the program that ended worst."""
        outcomes = {program["outcome"] for program in self.content["programs"]}
        worst_first = ("crashed", "hung", "failed", "cut short", "done", "skipped")
        self.content["outcome"] = next((each for each in worst_first if each in outcomes), "skipped")
        self.save()
        return self.content["outcome"]

    def save(self):
        self.content["seconds"] = round(time.monotonic() - self.begin, 3)
        write(self.path, self.content)
        self.saved_at = time.monotonic()
        self.is_saved = True
