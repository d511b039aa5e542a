#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A device that MIG has split, as nvidia-ml-py and cuda-bindings see it in one process."""

import os
import unittest
import uuid

import outside

if outside.is_there("pynvml"):
    import pynvml
if outside.is_there("cuda.bindings.driver"):
    from cuda.bindings import driver

os.environ["BERTH_SIM"] = "devices=2,memory=8GiB,name=Look-alike,mig=1:2"
given = outside.given


class Mig(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pynvml.nvmlInit()
        cls.split = pynvml.nvmlDeviceGetHandleByIndex(1)
        cls.instances = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(cls.split, i) for i in range(2)]
        # CUDA reads its environment at cuInit; by then the instances must have names.
        os.environ["CUDA_VISIBLE_DEVICES"] = pynvml.nvmlDeviceGetUUID(cls.instances[1])
        given(driver.cuInit(0))
        given(driver.cuCtxSetCurrent(given(driver.cuDevicePrimaryCtxRetain(0))))

    def test_nvml_lists_instances_below_their_device(self):
        self.assertEqual(pynvml.nvmlDeviceGetCount(), 2)
        whole = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.assertEqual(pynvml.nvmlDeviceGetMigMode(whole), [0, 0])
        self.assertEqual(pynvml.nvmlDeviceGetMaxMigDeviceCount(whole), 0)
        self.assertEqual(pynvml.nvmlDeviceGetMigMode(self.split), [1, 1])
        self.assertEqual(pynvml.nvmlDeviceGetMaxMigDeviceCount(self.split), 7)
        for index, instance in enumerate(self.instances):
            self.assertTrue(pynvml.nvmlDeviceIsMigDeviceHandle(instance))
            self.assertEqual(pynvml.nvmlDeviceGetIndex(instance), index)
            self.assertEqual(pynvml.nvmlDeviceGetName(instance), "Look-alike MIG 3g.4gb")
            self.assertEqual(pynvml.nvmlDeviceGetMemoryInfo(instance).total, 4 << 30)
            self.assertEqual(pynvml.nvmlDeviceGetAttributes(instance).memorySizeMB, 4 << 10)
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
            self.assertEqual(pynvml.nvmlDeviceGetUUID(parent), pynvml.nvmlDeviceGetUUID(self.split))
        self.assertFalse(pynvml.nvmlDeviceIsMigDeviceHandle(self.split))
        with self.assertRaises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.split, 2)

    def test_cuda_sees_the_instance_that_its_environment_names(self):
        self.assertEqual(given(driver.cuDeviceGetCount()), 1)
        self.assertEqual(given(driver.cuDeviceTotalMem(0)), 4 << 30)
        raw = bytes(given(driver.cuDeviceGetUuid(0)).bytes)
        self.assertEqual(f"MIG-{uuid.UUID(bytes=raw)}", pynvml.nvmlDeviceGetUUID(self.instances[1]))

    def test_memory_and_processes_are_those_of_the_instance(self):
        memory = given(driver.cuMemAlloc(64 << 20))
        self.addCleanup(lambda: given(driver.cuMemFree(memory)))
        used = [
            pynvml.nvmlDeviceGetMemoryInfo(handle).used for handle in (*self.instances, self.split)
        ]
        self.assertEqual(used, [0, 64 << 20, 64 << 20])
        self.assertEqual(pynvml.nvmlDeviceGetComputeRunningProcesses(self.instances[0]), [])
        for handle in (self.instances[1], self.split):
            (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            self.assertEqual(process.pid, os.getpid())
            self.assertEqual(process.usedGpuMemory, 64 << 20)
            self.assertEqual(
                process.gpuInstanceId, pynvml.nvmlDeviceGetGpuInstanceId(self.instances[1])
            )


if __name__ == "__main__":
    outside.run("pynvml", "cuda.bindings.driver")
