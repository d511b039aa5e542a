// SPDX-License-Identifier: Apache-2.0
// Which bytes copies and fills access, on which devices, and in which order.
// Source: CUDA Driver API, "Memory Management", "Unified Addressing", "API synchronization
// behavior"; CUDA C++ Programming Guide, "Stream and Event Behavior" on several devices.
#include "contract/contract_driver.hpp"

namespace copy_range_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4096;

struct RangeFixture : ContractFixture {
  RangeFixture() : device(make_memory(kBytes)), stream(make_stream()) {}
  ~RangeFixture() {
    driver.try_stream_synchronize(stream);
    driver.try_mem_free(device);
    driver.try_stream_destroy(stream);
  }
  [[nodiscard]] CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) const {
    return driver.try_memcpy_async(to, from, bytes, stream);
  }

  CUdeviceptr device;
  CUstream stream;
};

/// Whether bytes [first, last) are `inside`, and all others `outside`.
bool is_only(const std::vector<unsigned char>& content, std::size_t first, std::size_t last,
             unsigned char inside, unsigned char outside) {
  for (std::size_t i = 0; i < content.size(); ++i)
    if (content[i] != (i >= first && i < last ? inside : outside)) return false;
  return true;
}

}  // namespace

// cuMemcpyAsync: "ByteCount specifies the number of bytes to copy"; there is no rule of alignment.
TEST_CASE_FIXTURE(RangeFixture, "a copy touches its bytes and no others, at any offset") {
  fill(device, 1, kBytes, stream);
  const std::vector<unsigned char> host = bytes_of(101, 2);
  CHECK(copy(device + 13, address_of(host.data()), 101) == CUDA_SUCCESS);
  CHECK(is_only(read(device, kBytes, stream), 13, 114, 2, 1));
}

// cuMemcpyAsync copies between any two pointers that do not overlap.
TEST_CASE_FIXTURE(RangeFixture, "a copy stays within one allocation if its pointers do") {
  fill(device, 1, kBytes, stream);
  fill(device + 1001, 2, 7, stream);
  CHECK(copy(device + 3, device + 1001, 7) == CUDA_SUCCESS);
  const std::vector<unsigned char> content = read(device, 1000, stream);
  CHECK(is_only(content, 3, 10, 2, 1));
}

// cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE, for a range of which the device has no memory.
TEST_CASE_FIXTURE(RangeFixture, "a copy beyond the end of device memory is refused") {
  constexpr std::size_t small = 4 << 20;
  constexpr std::size_t large = 16 << 20;
  const CUdeviceptr first = make_memory(small);
  const CUdeviceptr second = make_memory(large);
  CHECK(copy(first, second, large) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(second, first, large) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(first, second, small) == CUDA_SUCCESS);
  driver.mem_free(first);
  driver.mem_free(second);
}

// cuMemsetD8Async: the same.
TEST_CASE_FIXTURE(RangeFixture, "a fill beyond the end of device memory is refused") {
  constexpr std::size_t bytes = 4 << 20;
  const CUdeviceptr memory = make_memory(bytes);
  CHECK(driver.try_memset_d8_async(memory, static_cast<unsigned char>(1), 4 * bytes, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_memset_d8_async(memory, static_cast<unsigned char>(1), bytes, stream) ==
        CUDA_SUCCESS);
  driver.mem_free(memory);
}

// cuMemsetD8Async: "dstDevice - Destination device pointer", which a pageable address is not.
TEST_CASE_FIXTURE(RangeFixture, "pageable memory is not filled") {
  int reaches_pageable = 0;
  driver.device_get_attribute(&reaches_pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0);
  if (reaches_pageable == 1) {
    MESSAGE("skipped: device 0 accesses pageable memory");
    return;
  }
  const std::vector<unsigned char> host = bytes_of(kBytes, 1);
  CHECK(driver.try_memset_d8_async(address_of(host.data()), static_cast<unsigned char>(2), kBytes,
                                   stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(host == bytes_of(kBytes, 1));
}

// cuMemsetD8Async sets "8-bit values": every one there is.
TEST_CASE_FIXTURE(RangeFixture, "a fill writes any value") {
  for (std::size_t i = 0; i < 256; ++i) fill(device + i, static_cast<unsigned char>(i), 1, stream);
  const std::vector<unsigned char> content = read(device, 256, stream);
  for (std::size_t i = 0; i < 256; ++i) CHECK(content[i] == i);
}

// "API synchronization behavior": between host memories a copy is over when the call returns, and
// it comes behind the work of its stream all the same.
TEST_CASE_FIXTURE(RangeFixture, "a copy between pinned memories follows the work of its stream") {
  unsigned char* from = make_pinned(kBytes, 1);
  unsigned char* to = make_pinned(kBytes, 2);
  fill(address_of(from), 3, kBytes, stream);
  CHECK(copy(address_of(to), address_of(from), kBytes) == CUDA_SUCCESS);
  CHECK(to[0] == 3);
  CHECK(to[kBytes - 1] == 3);
  driver.mem_free_host(static_cast<void*>(from));
  driver.mem_free_host(static_cast<void*>(to));
}

// "Unified Addressing": the device of a pointer follows from its value, so that memory of two
// devices is copied without naming them.
TEST_CASE_FIXTURE(RangeFixture, "cuMemcpyAsync copies between devices") {
  if (!has_two_devices()) return;
  fill(device, 7, kBytes, stream);
  driver.stream_synchronize(stream);
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(kBytes);
  const CUstream other = make_stream();
  CHECK(driver.try_memcpy_async(there, device, kBytes, other) == CUDA_SUCCESS);
  CHECK(read(there, kBytes, other) == bytes_of(kBytes, 7));
  driver.mem_free(there);
  driver.stream_destroy(other);
}

// cuMemcpyPeerAsync takes a stream, whose earlier work comes first.
TEST_CASE_FIXTURE(RangeFixture, "a peer copy follows the work of its stream") {
  if (!has_two_devices()) return;
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(kBytes);
  unsigned char* pinned = make_pinned(kBytes);
  driver.ctx_push_current(context);
  {
    Gate gate(driver, stream);
    fill(device, 8, kBytes, stream);
    CHECK(driver.try_memcpy_peer_async(there, second.context, device, context, kBytes, stream) ==
          CUDA_SUCCESS);
    CHECK(copy(address_of(pinned), there, kBytes) == CUDA_SUCCESS);
    gate.open();
    driver.stream_synchronize(stream);
  }
  CHECK(pinned[0] == 8);
  CHECK(pinned[kBytes - 1] == 8);
  driver.ctx_pop_current(nullptr);
  driver.mem_free_host(static_cast<void*>(pinned));
  driver.mem_free(there);
}

// Programming Guide: "A memory copy will succeed even if it is issued to a stream that is not
// associated to the current device."
TEST_CASE_FIXTURE(RangeFixture,
                  "a copy can be submitted to a stream of a device that is not current") {
  if (!has_two_devices()) return;
  unsigned char* pinned = make_pinned(kBytes, 6);
  {
    const SecondContext second(driver);
    CHECK(copy(device, address_of(pinned), kBytes) == CUDA_SUCCESS);
  }
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 6));
  driver.mem_free_host(static_cast<void*>(pinned));
}

}  // namespace copy_range_contract_test
