// SPDX-License-Identifier: Apache-2.0
// Copies without a stream argument: what is done when they return.
#include <cstring>
#include <functional>

#include "sim/graph_fixture.hpp"
#include "sim/per_thread_functions.hpp"

namespace synchronous_copy_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(EagerFixture, "every copy function, in both forms, preserves the bytes") {
  std::vector<unsigned char> out(1000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7);
  const CUstream stream = make_stream();
  const CUdeviceptr first = make_memory(out.size());
  const CUdeviceptr second = make_memory(out.size());
  std::vector<unsigned char> back(out.size());
  CHECK(CU(cuMemcpyHtoD)(first, out.data(), out.size()) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyDtoD)(second, first, out.size()) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyDtoH)(back.data(), second, back.size()) == CUDA_SUCCESS);
  CHECK(back == out);
  back.assign(back.size(), 0);
  CHECK(CU(cuMemcpyHtoDAsync)(second, out.data() + 1, 999, stream) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyDtoDAsync)(first, second, 999, stream) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyDtoHAsync)(back.data() + 1, first, 999, stream) == CUDA_SUCCESS);
  out[0] = 0;
  CHECK(back == out);
  CHECK(CU(cuMemcpy)(address_of(back.data()), address_of(out.data() + 10), 10) == CUDA_SUCCESS);
  CHECK(back[9] == out[19]);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "copies to the host, from pinned memory and within the host are done at return") {
  unsigned char* pinned = make_pinned(64);
  std::vector<unsigned char> host = bytes_of(64, 4);
  const CUdeviceptr device = make_memory(64);
  std::memset(pinned, 1, 64);
  CHECK(CU(cuMemcpyHtoD)(device, pinned, 64) == CUDA_SUCCESS);
  CHECK(sim.peek(device, 64) == bytes_of(64, 1));
  OK(CU(cuMemsetD8Async)(device, 2, 64, nullptr));
  CHECK(CU(cuMemcpyDtoH)(pinned, device, 64) == CUDA_SUCCESS);
  CHECK(pinned[63] == 2);
  CHECK(CU(cuMemcpyDtoH)(host.data(), device, 64) == CUDA_SUCCESS);
  CHECK(host == bytes_of(64, 2));
  std::memset(pinned, 3, 64);
  CHECK(CU(cuMemcpy)(address_of(host.data()), address_of(pinned), 64) == CUDA_SUCCESS);
  CHECK(host == bytes_of(64, 3));
  CHECK(sim.pending_operations(nullptr) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "copies between device memories do not wait") {
  const CUdeviceptr first = make_memory(64);
  const CUdeviceptr second = make_memory(64);
  OK(CU(cuMemsetD8Async)(first, 2, 64, nullptr));
  CHECK(CU(cuMemcpyDtoD)(second, first, 64) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpy)(second, first, 64) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 3);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a copy from pageable memory waits for its stream, but not for the copy") {
  std::vector<unsigned char> host = bytes_of(64, 5);
  const CUdeviceptr device = make_memory(64);
  OK(CU(cuMemsetD8Async)(device, 2, 64, nullptr));
  CHECK(CU(cuMemcpyHtoD)(device, host.data(), 64) == CUDA_SUCCESS);
  host.assign(64, 6);
  CHECK(sim.peek(device, 64) == bytes_of(64, 2));
  CHECK(sim.pending_operations(nullptr) == 1);
  CHECK(sim.run_next(nullptr));
  CHECK(sim.peek(device, 64) == bytes_of(64, 5));
}

TEST_CASE_FIXTURE(
    ManualFixture,
    "a synchronous copy waits for blocking streams and races with non-blocking ones") {
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host(64);
  OK(CU(cuMemsetD8Async)(device, 2, 64, make_stream(CU_STREAM_DEFAULT)));
  OK(CU(cuMemcpyDtoH)(host.data(), device, 64));
  CHECK(host == bytes_of(64, 2));
  CHECK(sim.take_findings().empty());
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(device, 3, 64, stream));
  OK(CU(cuMemcpyDtoH)(host.data(), device, 64));
  CHECK(host == bytes_of(64, 2));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "the per-thread form works on the thread's own stream") {
  const CUdeviceptr device = make_memory(64);
  OK(CU(cuMemsetD8Async_ptsz)(device, 2, 64, nullptr));
  CHECK(CU(cuMemcpyDtoD_v2_ptds)(device + 32, device, 32) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 2);
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 0);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "each side must be the kind of memory that the function's name says") {
  unsigned char* pinned = make_pinned(64);
  std::vector<unsigned char> host(64);
  const CUdeviceptr device = make_memory(64);
  void* const as_host = reinterpret_cast<void*>(device);
  CHECK(CU(cuMemcpyHtoD)(device, as_host, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyHtoD)(address_of(host.data()), host.data(), 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoH)(as_host, device, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoH)(host.data(), address_of(host.data()), 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoD)(device, address_of(host.data()), 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyHtoDAsync)(device, as_host, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoHAsync)(as_host, device, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoDAsync)(address_of(host.data()), device, 64, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  // Pinned memory has an address on the device, the same one.
  CHECK(CU(cuMemcpyHtoD)(address_of(pinned), host.data(), 64) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyDtoD)(device, address_of(pinned), 64) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "invalid addresses and sizes are refused") {
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host(64);
  for (const CUdeviceptr wrong : {CUdeviceptr{0}, CUdeviceptr{8}, device + 1, ~CUdeviceptr{0}}) {
    CAPTURE(wrong);
    CHECK(CU(cuMemcpy)(wrong, device, 64) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemcpyHtoD)(wrong, host.data(), 64) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemcpyDtoH)(host.data(), wrong, 64) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(CU(cuMemcpyHtoD)(device, nullptr, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoH)(nullptr, device, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyDtoH)(host.data(), device, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy)(0, 0, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyHtoD)(device, nullptr, 0) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a capture that forbids waiting forbids synchronous copies") {
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host(64);
  const std::vector<std::function<CUresult()>> copies = {
      [&] { return CU(cuMemcpyDtoH)(host.data(), device, 64); },
      [&] { return CU(cuMemcpyDtoD)(device, device + 32, 32); },
      [&] { return CU(cuMemsetD8)(device, 1, 64); },
      [&] { return CU(cuMemcpyPeer)(device, context, device + 32, context, 32); },
  };
  for (const auto& copy : copies) {
    const CUstream stream = make_stream();
    begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(copy() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  begin_capture(blocking);
  CHECK(copies[0]() == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(fail_capture(blocking) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(sim.pending_operations(nullptr) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a peer copy is ordered with all work of both contexts") {
  const CUdeviceptr here = make_memory(64);
  const CUcontext peer = retain(1);
  OK(CU(cuCtxPushCurrent)(peer));
  const CUdeviceptr there = make_memory(64);
  const CUstream away = make_stream();
  OK(CU(cuMemsetD8Async)(there, 5, 64, away));
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(CU(cuMemcpyPeer)(here, context, there, peer, 64) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(there, 6, 64, away));
  OK(CU(cuMemsetD8Async)(here + 32, 6, 32, make_stream()));
  CHECK(sim.peek(here, 64) == bytes_of(64, 5));
  sim.run_all();
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(EagerFixture, "a synchronous peer copy names the contexts where the memory is") {
  const CUcontext peer = retain(1);
  const CUdeviceptr here = make_memory(64);
  CHECK(CU(cuMemcpyPeer)(here, peer, here + 32, context, 32) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyPeer)(here, context, here + 32, nullptr, 32) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemcpyPeer)(here, context, 0, context, 32) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyPeer)(0, context, 0, peer, 0) == CUDA_SUCCESS);
}

}  // namespace synchronous_copy_test
