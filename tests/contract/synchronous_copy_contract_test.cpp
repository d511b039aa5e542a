// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "API synchronization behavior", "Memcpy", synchronous.
#include <cstring>

#include "contract/contract_driver.hpp"

namespace synchronous_copy_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 20;

struct SynchronousCopyFixture : ContractFixture {
  SynchronousCopyFixture() : device(make_memory(kBytes)), stream(make_stream(CU_STREAM_DEFAULT)) {}
  ~SynchronousCopyFixture() {
    driver.try_ctx_synchronize();
    driver.try_mem_free(device);
    driver.try_stream_destroy(stream);
  }

  decltype(&::cuMemcpy) copy = CONTRACT_FUNCTION(cuMemcpy, 4000);
  decltype(&::cuMemcpyPeer) copy_peer = CONTRACT_FUNCTION(cuMemcpyPeer, 4000);
  decltype(&::cuMemcpyHtoD) to_device = CONTRACT_FUNCTION(cuMemcpyHtoD, 3020);
  decltype(&::cuMemcpyDtoH) to_host = CONTRACT_FUNCTION(cuMemcpyDtoH, 3020);
  decltype(&::cuMemcpyDtoD) on_device = CONTRACT_FUNCTION(cuMemcpyDtoD, 3020);
  decltype(&::cuMemcpyHtoDAsync) to_device_async = CONTRACT_FUNCTION(cuMemcpyHtoDAsync, 3020);
  decltype(&::cuMemcpyDtoHAsync) to_host_async = CONTRACT_FUNCTION(cuMemcpyDtoHAsync, 3020);
  decltype(&::cuMemcpyDtoDAsync) on_device_async = CONTRACT_FUNCTION(cuMemcpyDtoDAsync, 3020);

  CUdeviceptr device;
  CUstream stream;
};

}  // namespace

// cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH, and their asynchronous forms.
TEST_CASE_FIXTURE(SynchronousCopyFixture, "each kind of copy preserves the bytes") {
  std::vector<unsigned char> out(kBytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7 + i / 251);
  std::vector<unsigned char> back(kBytes);
  const CUdeviceptr other = make_memory(kBytes);
  CHECK(to_device(device, out.data(), kBytes) == CUDA_SUCCESS);
  CHECK(on_device(other, device, kBytes) == CUDA_SUCCESS);
  CHECK(to_host(back.data(), other, kBytes) == CUDA_SUCCESS);
  CHECK(back == out);
  CHECK(to_device_async(device, out.data() + 1, kBytes - 1, stream) == CUDA_SUCCESS);
  CHECK(on_device_async(other, device, kBytes - 1, stream) == CUDA_SUCCESS);
  CHECK(to_host_async(back.data() + 1, other, kBytes - 1, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(back == out);
  driver.mem_free(other);
}

// "For transfers from device to either pageable or pinned host memory, the function returns only
// once the copy has completed", and it uses the null stream.
TEST_CASE_FIXTURE(SynchronousCopyFixture, "a copy to the host is complete when the call returns") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  std::vector<unsigned char> host(kBytes);
  fill(device, 5, kBytes, stream);
  CHECK(to_host(pinned, device, kBytes) == CUDA_SUCCESS);
  CHECK(pinned[kBytes - 1] == 5);
  fill(device, 6, kBytes, stream);
  CHECK(to_host(host.data(), device, kBytes) == CUDA_SUCCESS);
  CHECK(host == bytes_of(kBytes, 6));
  driver.mem_free_host(static_cast<void*>(pinned));
}

// "For transfers from pinned host memory to device memory, the function is synchronous with respect
// to the host."
TEST_CASE_FIXTURE(SynchronousCopyFixture, "a pinned source may be reused when the call returns") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  CHECK(to_device(device, pinned, kBytes) == CUDA_SUCCESS);
  std::memset(pinned, 2, kBytes);
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 1));
  driver.mem_free_host(static_cast<void*>(pinned));
}

// "For transfers from pageable host memory to device memory ... will return once the pageable
// buffer has been copied to the staging memory".
TEST_CASE_FIXTURE(SynchronousCopyFixture, "a pageable source may be reused when the call returns") {
  std::vector<unsigned char> host = bytes_of(kBytes, 3);
  CHECK(to_device(device, host.data(), kBytes) == CUDA_SUCCESS);
  host.assign(kBytes, 4);
  CHECK(read(device, kBytes, stream) == bytes_of(kBytes, 3));
}

// "For transfers from any host memory to any host memory, the function is fully synchronous".
TEST_CASE_FIXTURE(SynchronousCopyFixture,
                  "a copy between host memories is complete when the call returns") {
  const std::vector<unsigned char> from = bytes_of(kBytes, 4);
  std::vector<unsigned char> to(kBytes);
  CHECK(copy(address_of(to.data()), address_of(from.data()), kBytes) == CUDA_SUCCESS);
  CHECK(to == from);
}

// cuMemcpyPeer: "Copies from device memory in one context to device memory in another context."
TEST_CASE_FIXTURE(SynchronousCopyFixture, "a peer copy moves bytes between devices") {
  if (!has_two_devices()) return;
  fill(device, 7, kBytes, stream);
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(kBytes);
  CHECK(copy_peer(there, second.context, device, context, kBytes) == CUDA_SUCCESS);
  const CUstream other = make_stream();
  driver.ctx_synchronize();
  CHECK(read(there, kBytes, other) == bytes_of(kBytes, 7));
  driver.mem_free(there);
  driver.stream_destroy(other);
}

// cuMemcpy of no bytes.
TEST_CASE_FIXTURE(SynchronousCopyFixture, "a synchronous copy of nothing succeeds") {
  CHECK(copy(device, device + 64, 0) == CUDA_SUCCESS);
  CHECK(to_device(device, nullptr, 0) == CUDA_SUCCESS);
}

}  // namespace synchronous_copy_contract_test
