#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA build on the simulated driver: what it asks the device for, and the races of
torch_races.py, which are found, and not found without the mistake in any of 20 orders."""

import pathlib
import re
import tempfile
import unittest

import client

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = 20
MISTAKES = {
    "wait": ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"),
    "record": ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"),
    "reuse": ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"),
}

USES = """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
numbers = torch.arange(1000, dtype=torch.float32)
device = torch.empty(1000, device="cuda").copy_(numbers)
assert torch.equal(device.cpu(), numbers)
assert torch.cuda.can_device_access_peer(0, 1)
other = torch.empty(1000, device="cuda:1").copy_(device)
assert torch.equal(other.cpu(), numbers)
pinned = numbers.pin_memory()
assert pinned.is_pinned()
stream, event = torch.cuda.Stream(), torch.cuda.Event()
with torch.cuda.stream(stream):
    back = torch.empty(1000, pin_memory=True).copy_(device, non_blocking=True)
    event.record()
event.synchronize()
assert torch.equal(back, numbers)
static = torch.zeros(1000, pin_memory=True).to("cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static.copy_(device)
for factor in (1, 2):
    device.copy_(numbers * factor)
    graph.replay()
    assert torch.equal(static.cpu(), numbers * factor)
before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == before + (1 << 20)
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    raise AssertionError("2 GiB of 1")
except torch.OutOfMemoryError as error:
    said = str(error)
assert "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1024.00 MiB" in said, said
assert torch.cuda.memory_stats()["num_ooms"] == 1
assert torch.cuda.mem_get_info()[1] == 1 << 30
print("used")
"""


SEEN = """
import torch
uuid = lambda index: torch.cuda.get_device_properties(index).uuid
print(torch.cuda.is_available(), *(uuid(index) for index in range(torch.cuda.device_count())))
if torch.cuda.is_available():
    assert torch.empty(1, device="cuda").device.index == 0
"""


def masked(text):
    """Without what differs from run to run, and without the frames that start the program here."""
    kept = re.sub(r"0x[0-9a-f]+|call \d+", "...", text)
    return [line for line in kept.splitlines() if "runpy" not in line and "<string>" not in line]


class PyTorch(unittest.TestCase):
    def race(self, name, kind, *options):
        program = f"sys.argv = ['torch_races.py', {name!r}, {kind!r}]; "
        program += "runpy.run_path('torch_races.py', run_name='__main__')"
        return client.sim("torch", "--preload", *options, program=program)

    def test_memory_streams_events_graphs_and_peers(self):
        done = client.sim(
            "torch", "--preload", "--devices", "2", "--memory", "1GiB", program=f"exec({USES!r})"
        )
        self.assertEqual(done.returncode, 0, client.story(done))
        self.assertEqual(done.stdout, "used\n")

    def visible(self, variables):
        done = client.sim(
            "torch", "--preload", "--devices", "2", program=f"exec({SEEN!r})", **variables
        )
        self.assertEqual(done.returncode, 0, client.story(done))
        available, *uuids = done.stdout.split()
        self.assertEqual(available, str(uuids != []))
        return uuids

    def test_visible_devices(self):
        first, second = self.visible({})
        for value, seen in {
            "1": [second],
            "1,0": [second, first],
            f"GPU-{second}": [second],
            "": [],
        }.items():
            with self.subTest(value=value):
                self.assertEqual(self.visible({"CUDA_VISIBLE_DEVICES": value}), seen)

    def test_the_three_mistakes_are_found_with_their_lines(self):
        for name, (later, earlier) in MISTAKES.items():
            done = self.race(name, "wrong")
            self.assertEqual(done.returncode, 1, client.story(done))
            self.assertIn("berth sim: 1 finding\n", done.stderr)
            self.assertRegex(done.stderr, rf"race: {later} .* while {earlier} ")
            uses = re.findall(rf"(first|second) use +torch_races.py:\d+ in {name}\n", done.stderr)
            self.assertEqual(uses, ["first", "second"], client.story(done))

    def test_the_page_begins_with_what_its_program_prints(self):
        page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
        program = re.search(r"```py\n(.*?)```", page, re.S).group(1)
        shown = re.search(r"```\n\$ berth sim --preload -- python race.py\n(.*?)```", page, re.S)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "race.py"
            file.write_text(program, encoding="utf-8")
            done = client.sim(
                "torch", "--preload", program=f"runpy.run_path({str(file)!r}, run_name='__main__')"
            )
            # The interpreter has it by its path here.
            said = (done.stdout + done.stderr).replace(f"{folder}/", "")
        self.assertEqual(done.returncode, 1, client.story(done))
        self.assertEqual(masked(said), masked(shown.group(1)))

    def test_without_them_nothing_is_found_in_any_order(self):
        for name in MISTAKES:
            done = self.race(name, "right", "--seeds", str(SEEDS))
            self.assertEqual(done.returncode, 0, client.story(done))
            self.assertIn(f"berth sim: no findings in {SEEDS} seeds\n", done.stderr)


if __name__ == "__main__":
    client.main("torch")
