// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "API synchronization behavior", "Memory Management", "Unified
// Addressing".
#include <cstring>

#include "contract/contract_driver.hpp"

namespace copy_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 20;

struct CopyFixture : ContractFixture {
  CopyFixture() : device(make_memory(kBytes)), stream(make_stream()) {}
  ~CopyFixture() {
    driver.try_stream_synchronize(stream);
    driver.try_mem_free(device);
    driver.try_stream_destroy(stream);
  }
  void copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes = kBytes) const {
    driver.memcpy_async(to, from, bytes, stream);
  }

  CUdeviceptr device;
  CUstream stream;
};

}  // namespace

// "Unified Addressing": the kind of a copy follows from its pointers.
TEST_CASE_FIXTURE(CopyFixture, "copies to a device, within it and back preserve the bytes") {
  std::vector<unsigned char> out(kBytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7 + i / 251);
  const CUdeviceptr other = make_memory(kBytes);
  copy(device, address_of(out.data()));
  copy(other, device);
  CHECK(read(other, kBytes, stream) == out);
  driver.mem_free(other);
}

// "API synchronization behavior": from pageable host memory, the source is staged before the call
// returns.
TEST_CASE_FIXTURE(CopyFixture, "a pageable source may be reused when the call returns") {
  std::vector<unsigned char> host = bytes_of(kBytes, 5);
  copy(device, address_of(host.data()));
  std::fill(host.begin(), host.end(), static_cast<unsigned char>(6));
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 5));
}

// "API synchronization behavior": "For transfers from device memory to pageable host memory, the
// function will return only once the copy has completed."
TEST_CASE_FIXTURE(CopyFixture, "a copy to pageable memory is over when the call returns") {
  std::vector<unsigned char> host(kBytes);
  fill(device, 8, kBytes, stream);
  copy(address_of(host.data()), device);
  CHECK(host == bytes_of(kBytes, 8));
}

// "API synchronization behavior": other transfers are fully asynchronous, so that a pinned source
// must be left alone until the copy has run.
TEST_CASE_FIXTURE(CopyFixture, "a pinned source is read when the copy runs") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  {
    Gate gate(driver, stream);
    copy(device, address_of(pinned));
    std::memset(pinned, 2, kBytes);
    gate.open();
    driver.stream_synchronize(stream);
  }
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 2));
  driver.mem_free_host(static_cast<void*>(pinned));
}

// The same, the other way.
TEST_CASE_FIXTURE(CopyFixture, "a pinned target is written when the copy runs") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  fill(device, 3, kBytes, stream);
  driver.stream_synchronize(stream);
  {
    Gate gate(driver, stream);
    copy(address_of(pinned), device);
    CHECK(pinned[0] == 1);
    CHECK(pinned[kBytes - 1] == 1);
    gate.open();
    driver.stream_synchronize(stream);
  }
  CHECK(pinned[0] == 3);
  CHECK(pinned[kBytes - 1] == 3);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// cuMemHostRegister: registered memory is tracked "to automatically accelerate" copies, as
// cuMemHostAlloc's is.
TEST_CASE_FIXTURE(CopyFixture, "registered memory is copied as pinned memory is") {
  void* own = std::aligned_alloc(4096, kBytes);
  std::memset(own, 1, kBytes);
  driver.mem_host_register(own, kBytes, 0U);
  {
    Gate gate(driver, stream);
    copy(device, address_of(static_cast<char*>(own)));
    std::memset(own, 2, kBytes);
    gate.open();
    driver.stream_synchronize(stream);
  }
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 2));
  driver.mem_host_unregister(own);
  std::free(own);
}

// "API synchronization behavior": "For transfers from any host memory to any host memory, the
// function is fully synchronous with respect to the host."
TEST_CASE_FIXTURE(CopyFixture, "a copy between host memories is over when the call returns") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  const std::vector<unsigned char> host = bytes_of(kBytes, 4);
  copy(address_of(pinned), address_of(host.data()));
  CHECK(pinned[kBytes - 1] == 4);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// cuMemcpyAsync, cuMemsetD8Async of no bytes.
TEST_CASE_FIXTURE(CopyFixture, "copies and fills of 0 bytes succeed") {
  CHECK(driver.try_memcpy_async(device, device + 64, std::size_t{0}, stream) == CUDA_SUCCESS);
  CHECK(driver.try_memset_d8_async(device, static_cast<unsigned char>(1), std::size_t{0}, stream) ==
        CUDA_SUCCESS);
}

// cuMemsetD8Async: "Sets the memory range of N 8-bit values".
TEST_CASE_FIXTURE(CopyFixture, "a fill touches its bytes and no others") {
  fill(device, 1, kBytes, stream);
  fill(device + 100, 2, 50, stream);
  const std::vector<unsigned char> content = read(device, 200, stream);
  for (std::size_t i = 0; i < content.size(); ++i)
    REQUIRE(content[i] == (i >= 100 && i < 150 ? 2 : 1));
}

// cuMemFree is preceded by the work that uses the memory: "this API may perform implicit
// synchronization"; callers rely on it.
TEST_CASE_FIXTURE(CopyFixture, "memory can be freed while work that uses it is pending") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  const CUdeviceptr source = make_memory(kBytes);
  fill(source, 9, kBytes, stream);
  copy(address_of(pinned), source);
  CHECK(driver.try_mem_free(source) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(pinned[kBytes - 1] == 9);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// cuMemcpyPeerAsync: "Copies from device memory in one context to device memory in another
// context."
TEST_CASE_FIXTURE(CopyFixture, "a peer copy moves bytes between devices, both ways") {
  if (!has_two_devices()) return;
  fill(device, 7, kBytes, stream);
  driver.stream_synchronize(stream);
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(kBytes);
  const CUstream other = make_stream();
  driver.memcpy_peer_async(there, second.context, device, context, kBytes, other);
  CHECK(read(there, kBytes, other) == bytes_of(kBytes, 7));
  fill(there, 8, kBytes, other);
  driver.memcpy_peer_async(device, context, there, second.context, kBytes, other);
  driver.stream_synchronize(other);
  driver.mem_free(there);
  driver.stream_destroy(other);
  driver.ctx_push_current(context);
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 8));
  driver.ctx_pop_current(nullptr);
}

}  // namespace copy_contract_test
