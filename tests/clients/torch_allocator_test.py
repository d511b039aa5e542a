#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA build with memory of berth, on the simulated driver: torch_training.py and
torch_full.py."""

import os
import re
import tempfile
import unittest

import client

CASES = ("train", "workers", "forked", "threads", "streams", "graphs", "empty_cache",
         "out_of_memory", "cached_memory_serves", "two_devices", "live_at_exit")  # fmt: skip
TRACE = str(client.ROOT / "bench/traces/gpt2-train.csv.gz")
OPTIONS = ("--preload", "--devices", "2")


# What PyTorch's profiler prints, and calls that fail by design: PyTorch enables peer access that
# berth has enabled, and accepts the code.
OF_PYTORCH = re.compile(
    r"^USDT:.*\n|^berth sim: \d+ calls of the driver failed; the first: cuCtxEnablePeerAccess "
    r"\(call \d+\), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, .*\n",
    re.MULTILINE,
)


def own_lines(text):
    return OF_PYTORCH.sub("", text)


class PyTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def run_script(self, script, *words, memory="1GiB", **environment):
        program = f"sys.argv = {[script, *words]!r}; "
        program += f"runpy.run_path({script!r}, run_name='__main__')"
        environment = {"TRACE": TRACE, "XDG_CACHE_HOME": self.cache.name} | environment
        done = client.sim("torch", *OPTIONS, "--memory", memory, program=program, **environment)
        self.assertEqual(done.returncode, 0, client.story(done))
        self.assertEqual(own_lines(done.stderr), "berth sim: no findings\n", client.story(done))
        return own_lines(done.stdout)

    def check_training(self, allocator, **environment):
        said = self.run_script("torch_training.py", allocator, *CASES, **environment)
        self.assertEqual(said.split(), list(CASES))

    def test_training_on_the_plugin(self):
        self.check_training("plugin")

    def test_training_on_the_full_allocator(self):
        self.check_training("full")

    def test_renumbered_devices(self):
        for allocator in ("plugin", "full"):
            self.check_training(allocator, CUDA_VISIBLE_DEVICES="1,0")

    def test_the_full_allocator_reports(self):
        said = self.run_script("torch_full.py")
        cases = "statistics errors snapshots pools checkpoints unsupported profiled"
        self.assertEqual(said.split(), cases.split())

    def test_a_program_that_is_not_changed(self):
        script = str(client.ROOT / "tests/clients/torch_training.py")
        for option in ((), ("--full",)):
            words = ["berth.torch", *option, script, "nothing", "train", "live_at_exit"]
            program = f"sys.argv = {words!r}; "
            program += "runpy.run_module('berth.torch', run_name='__main__', alter_sys=True)"
            done = client.sim("torch", *OPTIONS, program=program, XDG_CACHE_HOME=self.cache.name)
            self.assertEqual(done.stdout.split(), ["train", "live_at_exit"], client.story(done))
            self.assertEqual(done.stderr, "berth sim: no findings\n")

    def test_a_recorded_program_takes_no_more_memory_than_with_expandable_segments(self):
        peaks = {}
        for allocator, options in (
            ("native", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
            ("plugin", {}),
            ("full", {}),
        ):
            said = self.run_script(
                "torch_training.py", allocator, "replay", memory="16GiB", **options
            )
            peaks[allocator] = int(re.search(r"peak (\d+)", said).group(1))
        self.assertLessEqual(peaks["plugin"], peaks["native"])
        self.assertLessEqual(peaks["full"], peaks["native"])

    def test_pools_that_sleep(self):
        program = (
            "import torch, berth.torch\n"
            "weights = berth.torch.Pool('weights', 'cuda:0')\n"
            "numbers = torch.arange(1 << 18)\n"
            "with weights.use():\n"
            "    kept = numbers.to('cuda')\n"
            "free = torch.cuda.mem_get_info()[0]\n"
            "assert weights.sleep(keep_content=True) >= 2 << 20\n"
            "assert torch.cuda.mem_get_info()[0] > free\n"
            "weights.wake()\n"
            "assert torch.equal(kept.cpu(), numbers)\n"
            "with weights.use():\n"
            "    try:\n"
            "        torch.empty(2 << 30, dtype=torch.uint8, device='cuda')\n"
            "        raise AssertionError('2 GiB of 1')\n"
            "    except torch.OutOfMemoryError:\n"
            "        pass\n"
            "print('slept')\n"
        )
        done = client.sim("torch", *OPTIONS, "--memory", "1GiB", program=f"exec({program!r})")
        self.assertEqual(done.stdout, "slept\n", client.story(done))

    def test_a_compiler_is_needed_for_the_full_allocator_alone(self):
        program = (
            "import berth.torch\n"
            "try:\n"
            "    berth.torch.enable(full=True)\n"
            "except berth.NotSupported as error:\n"
            "    print(error)\n"
            "berth.torch.enable()\n"
        )
        with tempfile.TemporaryDirectory() as empty:
            done = client.sim(
                "torch", *OPTIONS, program=f"exec({program!r})",
                XDG_CACHE_HOME=empty, CXX="no_such_compiler",
            )  # fmt: skip
            self.assertEqual(os.listdir(empty), [])
        self.assertEqual(done.returncode, 0, client.story(done))
        self.assertIn('there is no "no_such_compiler"', done.stdout)


if __name__ == "__main__":
    client.main("torch")
