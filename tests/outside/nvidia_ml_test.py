#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-ml-py on the look-alike of libnvidia-ml.so.1, beside cuda-bindings on that of
libcuda.so.1 in the same process."""

import os
import pathlib
import re
import unittest
import uuid

import outside

if outside.is_there("pynvml"):
    import pynvml
if outside.is_there("cuda.bindings.driver"):
    from cuda.bindings import driver

# CUDA sees the last device alone.
os.environ["BERTH_SIM"] = "devices=3,memory=1GiB/512MiB/256MiB,name=Look-alike"
os.environ["CUDA_VISIBLE_DEVICES"] = "2"
SIZES = (1 << 30, 512 << 20, 256 << 20)

given = outside.given


class NvidiaMl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # NVML comes first: neither library may depend on the other's being there before it.
        pynvml.nvmlInit()
        cls.handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(3)]
        given(driver.cuInit(0))
        cls.context = given(driver.cuDevicePrimaryCtxRetain(0))
        given(driver.cuCtxSetCurrent(cls.context))

    @classmethod
    def tearDownClass(cls):
        given(driver.cuDevicePrimaryCtxRelease(0))
        pynvml.nvmlShutdown()

    def assert_refused(self, code, function, *arguments):
        with self.assertRaises(pynvml.NVMLError) as caught:
            function(*arguments)
        self.assertEqual(caught.exception.value, code)

    def test_versions(self):
        self.assertEqual(pynvml.nvmlSystemGetCudaDriverVersion(), 13000)
        self.assertEqual(pynvml.nvmlSystemGetDriverVersion(), "580.00")
        self.assertEqual(pynvml.nvmlSystemGetNVMLVersion(), "13.580.00")

    def test_every_device_is_listed_whatever_cuda_sees(self):
        self.assertEqual(given(driver.cuDeviceGetCount()), 1)
        self.assertEqual(pynvml.nvmlDeviceGetCount(), 3)
        for index, (handle, size) in enumerate(zip(self.handles, SIZES)):
            self.assertEqual(pynvml.nvmlDeviceGetIndex(handle), index)
            self.assertEqual(pynvml.nvmlDeviceGetMinorNumber(handle), index)
            self.assertEqual(pynvml.nvmlDeviceGetName(handle), "Look-alike")
            self.assertEqual(pynvml.nvmlDeviceGetMemoryInfo(handle).total, size)
            self.assertEqual(pynvml.nvmlDeviceGetCudaComputeCapability(handle), (9, 0))
            self.assertEqual(
                pynvml.nvmlDeviceGetComputeMode(handle), pynvml.NVML_COMPUTEMODE_DEFAULT
            )
            self.assertEqual(pynvml.nvmlDeviceGetMigMode(handle), [0, 0])

    def test_handles_are_found_by_uuid_and_by_address(self):
        for handle in self.handles:
            text = pynvml.nvmlDeviceGetUUID(handle)
            address = pynvml.nvmlDeviceGetPciInfo(handle).busId
            for other in (
                pynvml.nvmlDeviceGetHandleByUUID(text),
                pynvml.nvmlDeviceGetHandleByPciBusId(address),
            ):
                self.assertEqual(pynvml.nvmlDeviceGetUUID(other), text)

    def test_a_device_is_the_same_in_both_by_uuid_and_address(self):
        raw = bytes(given(driver.cuDeviceGetUuid(0)).bytes)
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.UUID(bytes=raw)}")
        self.assertEqual(pynvml.nvmlDeviceGetIndex(handle), 2)
        address = given(driver.cuDeviceGetPCIBusId(32, 0)).rstrip(b"\0 ").decode()
        self.assertEqual("0000" + address, pynvml.nvmlDeviceGetPciInfo(handle).busId)

    def test_memory_that_cuda_gave_is_used_in_nvml(self):
        def used(version=None):
            return [pynvml.nvmlDeviceGetMemoryInfo(handle, version).used for handle in self.handles]

        before = used()
        memory = given(driver.cuMemAlloc(32 << 20))
        self.assertEqual(used(), [before[0], before[1], before[2] + (32 << 20)])
        self.assertEqual(used(pynvml.nvmlMemory_v2), used())
        free, total = given(driver.cuMemGetInfo())
        seen = pynvml.nvmlDeviceGetMemoryInfo(self.handles[2])
        self.assertEqual((seen.free, seen.total), (free, total))
        given(driver.cuMemFree(memory))
        self.assertEqual(used(), before)

    def test_this_process_is_listed_where_it_has_a_context(self):
        memory = given(driver.cuMemAlloc(32 << 20))
        for handle in self.handles[:2]:
            self.assertEqual(pynvml.nvmlDeviceGetComputeRunningProcesses(handle), [])
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(self.handles[2])
        self.assertEqual(process.pid, os.getpid())
        self.assertEqual(process.usedGpuMemory, 32 << 20)
        self.assertIn("python", pynvml.nvmlSystemGetProcessName(process.pid))
        self.assertEqual(pynvml.nvmlDeviceGetGraphicsRunningProcesses(self.handles[2]), [])
        given(driver.cuMemFree(memory))

    def test_peers(self):
        first, second = self.handles[:2]
        write = pynvml.NVML_P2P_CAPS_INDEX_WRITE
        nvlink = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        self.assertEqual(
            pynvml.nvmlDeviceGetP2PStatus(first, second, write), pynvml.NVML_P2P_STATUS_OK
        )
        self.assertEqual(
            pynvml.nvmlDeviceGetP2PStatus(first, second, nvlink),
            pynvml.NVML_P2P_STATUS_NOT_SUPPORTED,
        )
        self.assertEqual(
            pynvml.nvmlDeviceGetTopologyCommonAncestor(first, second), pynvml.NVML_TOPOLOGY_SYSTEM
        )

    def test_every_function_that_the_package_calls_is_there(self):
        source = pathlib.Path(pynvml.__file__).read_text(encoding="utf-8")
        names = re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', source)
        self.assertGreater(len(names), 300)
        for name in names:
            with self.subTest(name):
                self.assertIsNotNone(pynvml._nvmlGetFunctionPointer(name))

    def test_what_cannot_be_known_is_not_supported(self):
        handle = self.handles[0]
        for function, *rest in (
            (pynvml.nvmlDeviceGetUtilizationRates,),
            (pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            (pynvml.nvmlDeviceGetPowerUsage,),
            (pynvml.nvmlDeviceGetFanSpeed,),
            (pynvml.nvmlDeviceGetSerial,),
            (pynvml.nvmlDeviceGetNumaNodeId,),
            (pynvml.nvmlDeviceGetMemoryAffinity, 1, pynvml.NVML_AFFINITY_SCOPE_NODE),
        ):
            self.assert_refused(pynvml.NVML_ERROR_NOT_SUPPORTED, function, handle, *rest)

    def test_mistakes(self):
        self.assert_refused(
            pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetHandleByIndex, 3
        )
        stranger = f"GPU-{uuid.UUID(int=1)}"
        self.assert_refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetHandleByUUID, stranger)
        self.assert_refused(
            pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetHandleByPciBusId, "00000000:FF:00.0"
        )
        self.assert_refused(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.nvmlUnitGetCount)

    def test_as_many_shutdowns_as_initializations_end_it(self):
        pynvml.nvmlInit()
        pynvml.nvmlShutdown()
        self.assertEqual(pynvml.nvmlDeviceGetCount(), 3)
        pynvml.nvmlShutdown()
        self.assert_refused(pynvml.NVML_ERROR_UNINITIALIZED, pynvml.nvmlDeviceGetCount)
        pynvml.nvmlInit()


if __name__ == "__main__":
    outside.run("pynvml", "cuda.bindings.driver")
