#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's cuda-bindings on the look-alike of libcuda.so.1. Where the environment has
CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM, the null stream is each thread's own."""

import ctypes
import os
import threading
import unittest

import outside

if outside.is_there("cuda.bindings.driver"):
    from cuda.bindings import driver

# Nothing runs before something waits for it: what a test sees too early, it sees always.
os.environ["BERTH_SIM"] = "devices=2,memory=1GiB/512MiB,name=Look-alike,progress=manual"
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
PER_THREAD = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM" in os.environ

BYTES = 3 << 20
given = outside.given


def pattern(seed):
    return bytes((seed + i * i) % 251 for i in range(1 << 12)) * (BYTES >> 12)


class HostBuffer:
    """Pageable memory with an address."""

    def __init__(self, content=bytes(BYTES)):
        self.memory = ctypes.create_string_buffer(content, len(content))

    @property
    def address(self):
        return ctypes.addressof(self.memory)

    @property
    def content(self):
        return self.memory.raw


class CudaBindings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        given(driver.cuInit(0))
        cls.contexts = [given(driver.cuDevicePrimaryCtxRetain(device)) for device in range(2)]

    @classmethod
    def tearDownClass(cls):
        for device in range(2):
            given(driver.cuDevicePrimaryCtxRelease(device))

    def setUp(self):
        given(driver.cuCtxSetCurrent(self.contexts[0]))
        self.stream = self.make_stream()

    def make_stream(self):
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = given(driver.cuStreamCreateWithPriority(flags, 0))
        self.addCleanup(lambda: given(driver.cuStreamDestroy(stream)))
        return stream

    def allocate(self, size=BYTES):
        address = given(driver.cuMemAlloc(size))
        self.addCleanup(lambda: given(driver.cuMemFree(address)))
        return address

    def read(self, address, size=BYTES):
        host = HostBuffer(bytes(size))
        given(driver.cuMemcpyAsync(host.address, address, size, self.stream))
        given(driver.cuStreamSynchronize(self.stream))
        return host.content

    def test_devices_are_those_of_the_configuration(self):
        self.assertEqual(given(driver.cuDriverGetVersion()), 13000)
        self.assertEqual(given(driver.cuDeviceGetCount()), 2)
        uuids = set()
        for ordinal, size in ((0, 1 << 30), (1, 512 << 20)):
            device = given(driver.cuDeviceGet(ordinal))
            self.assertEqual(
                given(driver.cuDeviceGetName(64, device)).rstrip(b"\0 "), b"Look-alike"
            )
            self.assertEqual(given(driver.cuDeviceTotalMem(device)), size)
            self.assertEqual(given(driver.cuDeviceGetPCIBusId(32, device))[:5], b"0000:")
            uuids.add(bytes(given(driver.cuDeviceGetUuid(device)).bytes))
        self.assertEqual(len(uuids), 2)
        self.assertEqual(given(driver.cuDeviceCanAccessPeer(0, 1)), 1)

    def test_attributes(self):
        attribute = driver.CUdevice_attribute
        for which, value in (
            (attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9),
            (attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
            (attribute.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        ):
            self.assertEqual(given(driver.cuDeviceGetAttribute(which, 0)), value, which)

    def test_what_is_copied_to_the_device_and_on_comes_back(self):
        source = HostBuffer(pattern(1))
        first, second = self.allocate(), self.allocate()
        given(driver.cuMemcpyAsync(first, source.address, BYTES, self.stream))
        given(driver.cuMemcpyAsync(second, first, BYTES, self.stream))
        given(driver.cuMemsetD8Async(first, 7, BYTES, self.stream))
        self.assertEqual(self.read(second), pattern(1))
        self.assertEqual(self.read(first), bytes([7]) * BYTES)

    def test_pinned_memory_is_written_when_the_stream_says_so(self):
        pinned = given(driver.cuMemHostAlloc(BYTES, 0))
        self.addCleanup(lambda: given(driver.cuMemFreeHost(pinned)))
        ctypes.memset(pinned, 0, BYTES)
        memory = self.allocate()
        given(driver.cuMemsetD8Async(memory, 9, BYTES, self.stream))
        given(driver.cuMemcpyAsync(pinned, memory, BYTES, self.stream))
        self.assertEqual(ctypes.string_at(pinned, BYTES), bytes(BYTES))
        given(driver.cuStreamSynchronize(self.stream))
        self.assertEqual(ctypes.string_at(pinned, BYTES), bytes([9]) * BYTES)

    def test_memory_of_another_device_is_copied_as_peers_do(self):
        source = HostBuffer(pattern(2))
        here = self.allocate()
        given(driver.cuMemcpyAsync(here, source.address, BYTES, self.stream))
        given(driver.cuCtxPushCurrent(self.contexts[1]))
        there = self.allocate()
        given(driver.cuCtxPopCurrent())
        given(
            driver.cuMemcpyPeerAsync(
                there, self.contexts[1], here, self.contexts[0], BYTES, self.stream
            )
        )
        given(driver.cuMemsetD8Async(here, 0, BYTES, self.stream))
        given(
            driver.cuMemcpyPeerAsync(
                here, self.contexts[0], there, self.contexts[1], BYTES, self.stream
            )
        )
        self.assertEqual(self.read(here), pattern(2))

    def test_an_event_orders_two_streams(self):
        other = self.make_stream()
        event = given(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self.addCleanup(lambda: given(driver.cuEventDestroy(event)))
        memory = self.allocate()
        given(driver.cuMemsetD8Async(memory, 1, BYTES, other))
        given(driver.cuEventRecord(event, other))
        given(driver.cuStreamWaitEvent(self.stream, event, 0))
        given(driver.cuMemsetD8Async(memory, 2, BYTES, self.stream))
        not_ready = driver.CUresult.CUDA_ERROR_NOT_READY
        self.assertEqual(driver.cuEventQuery(event)[0], not_ready)
        self.assertEqual(driver.cuStreamQuery(self.stream)[0], not_ready)
        self.assertEqual(self.read(memory), bytes([2]) * BYTES)
        given(driver.cuEventQuery(event))

    def test_events_tell_time(self):
        start, end = (given(driver.cuEventCreate(0)) for _ in range(2))
        memory = self.allocate()
        given(driver.cuEventRecord(start, self.stream))
        given(driver.cuMemsetD8Async(memory, 0, BYTES, self.stream))
        given(driver.cuEventRecord(end, self.stream))
        self.assertEqual(
            driver.cuEventElapsedTime(start, end)[0], driver.CUresult.CUDA_ERROR_NOT_READY
        )
        given(driver.cuEventSynchronize(end))
        self.assertGreater(given(driver.cuEventElapsedTime(start, end)), 0)
        for event in (start, end):
            given(driver.cuEventDestroy(event))

    def test_virtual_memory_is_reserved_mapped_used_and_unmapped(self):
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granule = given(driver.cuMemGetAllocationGranularity(properties, minimum))
        access = driver.CUmemAccessDesc()
        access.location = properties.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE

        start = given(driver.cuMemAddressReserve(4 * granule, 0, 0, 0))
        handle = given(driver.cuMemCreate(granule, properties, 0))
        # The same memory at two places: what is written through one is read through the other.
        places = (int(start), int(start) + 2 * granule)
        for place in places:
            given(driver.cuMemMap(place, granule, 0, handle, 0))
            given(driver.cuMemSetAccess(place, granule, [access], 1))
        given(driver.cuMemRelease(handle))
        given(driver.cuMemsetD8Async(places[0], 5, granule, self.stream))
        self.assertEqual(self.read(places[1], granule), bytes([5]) * granule)
        invalid = driver.CUresult.CUDA_ERROR_INVALID_VALUE
        self.assertEqual(driver.cuMemsetD8Async(places[0] + granule, 5, 1, self.stream)[0], invalid)
        for place in places:
            given(driver.cuMemUnmap(place, granule))
        self.assertEqual(driver.cuMemsetD8Async(places[0], 5, 1, self.stream)[0], invalid)
        given(driver.cuMemAddressFree(start, 4 * granule))

    def test_a_host_function_runs_in_its_place_on_the_stream(self):
        pinned = given(driver.cuMemHostAlloc(16, 0))
        self.addCleanup(lambda: given(driver.cuMemFreeHost(pinned)))
        memory = self.allocate(16)
        seen = []

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def note(data):
            seen.append((data, ctypes.string_at(pinned, 16), driver.cuInit(0)[0]))

        given(driver.cuMemsetD8Async(memory, 3, 16, self.stream))
        given(driver.cuMemcpyAsync(pinned, memory, 16, self.stream))
        given(
            driver.cuLaunchHostFunc(self.stream, driver.CUhostFn(_ptr=ctypes.addressof(note)), 99)
        )
        given(driver.cuMemsetD8Async(memory, 4, 16, self.stream))
        given(driver.cuMemcpyAsync(pinned, memory, 16, self.stream))
        self.assertEqual(seen, [])
        given(driver.cuStreamSynchronize(self.stream))
        self.assertEqual(seen, [(99, bytes([3]) * 16, driver.CUresult.CUDA_ERROR_NOT_PERMITTED)])
        self.assertEqual(ctypes.string_at(pinned, 16), bytes([4]) * 16)

    def test_the_null_stream_is_shared_or_the_threads_own(self):
        memory = self.allocate()
        given(driver.cuMemsetD8Async(memory, 6, BYTES, 0))
        pending = driver.CUresult.CUDA_ERROR_NOT_READY
        done = driver.CUresult.CUDA_SUCCESS
        seen = []

        def query():
            given(driver.cuCtxSetCurrent(self.contexts[0]))
            seen.append(driver.cuStreamQuery(0)[0])

        thread = threading.Thread(target=query)
        thread.start()
        thread.join()
        self.assertEqual(seen, [done if PER_THREAD else pending])
        self.assertEqual(driver.cuStreamQuery(0)[0], pending)
        given(driver.cuStreamSynchronize(0))
        self.assertEqual(driver.cuStreamQuery(0)[0], done)

    def test_mistakes_have_the_codes_that_the_documentation_gives(self):
        code = driver.CUresult
        self.assertEqual(driver.cuMemAlloc(2 << 30)[0], code.CUDA_ERROR_OUT_OF_MEMORY)
        self.assertEqual(driver.cuMemAlloc(0)[0], code.CUDA_ERROR_INVALID_VALUE)
        self.assertEqual(driver.cuDeviceGet(2)[0], code.CUDA_ERROR_INVALID_DEVICE)
        memory = given(driver.cuMemAlloc(BYTES))
        given(driver.cuMemFree(memory))
        self.assertEqual(driver.cuMemFree(memory)[0], code.CUDA_ERROR_INVALID_VALUE)
        event = given(driver.cuEventCreate(0))
        given(driver.cuEventDestroy(event))
        self.assertEqual(driver.cuEventQuery(event)[0], code.CUDA_ERROR_INVALID_HANDLE)
        self.addCleanup(lambda: given(driver.cuCtxSetCurrent(self.contexts[0])))
        given(driver.cuCtxSetCurrent(0))
        self.assertEqual(driver.cuMemAlloc(BYTES)[0], code.CUDA_ERROR_INVALID_CONTEXT)
        name = given(driver.cuGetErrorName(code.CUDA_ERROR_INVALID_CONTEXT))
        self.assertEqual(name, b"CUDA_ERROR_INVALID_CONTEXT")

    def test_a_function_that_is_not_simulated_is_found_and_fails(self):
        for _ in range(2):
            self.assertEqual(
                driver.cuTexObjectDestroy(0)[0], driver.CUresult.CUDA_ERROR_NOT_SUPPORTED
            )

    def test_tables_for_nvidias_own_libraries_are_not_found(self):
        self.assertEqual(
            driver.cuGetExportTable(driver.CUuuid())[0], driver.CUresult.CUDA_ERROR_NOT_FOUND
        )


if __name__ == "__main__":
    outside.run("cuda.bindings.driver")
