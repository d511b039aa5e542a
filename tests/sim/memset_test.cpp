// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <functional>
#include <string>

#include "sim/graph_fixture.hpp"
#include "sim/per_thread_functions.hpp"

namespace memset_test {

using namespace berth;
using namespace berth::test;

namespace {

/// `count` values one after the other, as bytes.
template <class Value>
std::vector<unsigned char> repeated(Value value, std::size_t count) {
  std::vector<unsigned char> bytes(count * sizeof(Value));
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(bytes.data() + i * sizeof(Value), &value, sizeof(Value));
  return bytes;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "a fill repeats its value of any width") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8)(memory, 0x11, 64));
  CHECK(sim.peek(memory, 64) == bytes_of(64, 0x11));
  OK(CU(cuMemsetD16)(memory, 0x1234, 32));
  CHECK(sim.peek(memory, 64) == repeated<unsigned short>(0x1234, 32));
  OK(CU(cuMemsetD32)(memory, 0x12345678, 16));
  CHECK(sim.peek(memory, 64) == repeated<unsigned>(0x12345678, 16));
  OK(CU(cuMemsetD8)(memory, 0, 64));
  OK(CU(cuMemsetD16Async)(memory + 2, 0xabcd, 3, nullptr));
  CHECK(sim.peek(memory, 2) == bytes_of(2, 0));
  CHECK(sim.peek(memory + 2, 6) == repeated<unsigned short>(0xabcd, 3));
  CHECK(sim.peek(memory + 8, 2) == bytes_of(2, 0));
  OK(CU(cuMemsetD32Async)(memory, 0xa1b2c3d4, 2, nullptr));
  CHECK(sim.peek(memory, 8) == repeated<unsigned>(0xa1b2c3d4, 2));
}

TEST_CASE_FIXTURE(EagerFixture, "a fill of rows leaves what lies between them") {
  const CUdeviceptr memory = make_memory(64);
  const std::vector<std::function<CUresult()>> fills = {
      [&] { return CU(cuMemsetD2D8)(memory, 16, 0x77, 4, 3); },
      [&] { return CU(cuMemsetD2D16)(memory, 16, 0x7777, 2, 3); },
      [&] { return CU(cuMemsetD2D32)(memory, 16, 0x77777777, 1, 3); },
      [&] { return CU(cuMemsetD2D8Async)(memory, 16, 0x77, 4, 3, nullptr); },
      [&] { return CU(cuMemsetD2D16Async)(memory, 16, 0x7777, 2, 3, nullptr); },
      [&] { return CU(cuMemsetD2D32Async)(memory, 16, 0x77777777, 1, 3, nullptr); },
  };
  for (const auto& fill : fills) {
    OK(CU(cuMemsetD8)(memory, 0, 64));
    CHECK(fill() == CUDA_SUCCESS);
    const std::vector<unsigned char> content = sim.peek(memory, 64);
    for (std::size_t i = 0; i < content.size(); ++i) {
      const bool in_row = i < 48 && i % 16 < 4;
      REQUIRE(content[i] == (in_row ? 0x77 : 0));
    }
  }
}

TEST_CASE_FIXTURE(ManualFixture, "the host waits for a fill of host memory, and for no other") {
  unsigned char* pinned = make_pinned(64);
  const CUdeviceptr memory = make_memory(64);
  CHECK(CU(cuMemsetD8)(memory, 1, 64) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 1);
  CHECK(CU(cuMemsetD32)(address_of(pinned), 0x02020202, 16) == CUDA_SUCCESS);
  CHECK(pinned[63] == 2);
  CHECK(sim.pending_operations(nullptr) == 0);
  CHECK(CU(cuMemsetD16Async)(address_of(pinned), 0x0303, 32, nullptr) == CUDA_SUCCESS);
  CHECK(pinned[63] == 2);
}

TEST_CASE_FIXTURE(ManualFixture, "a per-thread form fills on the thread's own stream") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8_v2_ptds)(memory, 1, 64));
  OK(CU(cuMemsetD2D32Async_ptsz)(memory, 16, 1, 1, 2, nullptr));
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 2);
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "addresses and pitches are aligned to the value") {
  const CUdeviceptr memory = make_memory(64);
  CHECK(CU(cuMemsetD16)(memory + 1, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD32)(memory + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD32Async)(memory + 2, 0, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D16)(memory, 15, 0, 1, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D32Async)(memory, 18, 0, 1, 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D32)(memory, 18, 0, 1, 1) == CUDA_SUCCESS);  // one row has no pitch
}

TEST_CASE_FIXTURE(EagerFixture, "fills beyond their memory and invalid sizes are refused") {
  const CUdeviceptr memory = make_memory(512);
  std::vector<unsigned char> host(64);
  CHECK(CU(cuMemsetD32)(memory, 0, 128) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD32)(memory, 0, 129) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD32)(memory, 0, SIZE_MAX / 4 + 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD16Async)(memory, 0, SIZE_MAX, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D8)(memory, 256, 0, 256, 2) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD2D8)(memory, 256, 0, 257, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D8)(memory, 500, 0, 12, 2) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD2D8)(memory, 500, 0, 13, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D8)(memory, SIZE_MAX, 0, 1, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D8)(memory, std::size_t{1} << 63, 0, 1, 3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD2D8)(memory, 0, 0, 1, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8)(0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8)(address_of(host.data()), 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8Async)(memory, 0, 1, reinterpret_cast<CUstream>(99)) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuMemsetD8)(0, 0, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD2D8)(0, 0, 0, 0, 9) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD2D8)(0, 0, 0, 9, 0) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "interleaved rows do not race, and overlapping rows do") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD2D8Async)(memory, 16, 1, 8, 4, make_stream()));
  OK(CU(cuMemsetD2D8Async)(memory + 8, 16, 1, 8, 4, make_stream()));
  sim.run_all();
  CHECK(sim.take_findings().empty());
  OK(CU(cuMemsetD2D8Async)(memory + 4, 16, 1, 8, 4, make_stream()));
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "the same race in many rows is reported once") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
  OK(CU(cuMemsetD2D8Async)(memory, 16, 1, 8, 4, make_stream()));
  sim.run_all();
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find("cuMemsetD2D8Async") != std::string::npos);
  CHECK(findings[0].find("32 B") != std::string::npos);
}

TEST_CASE_FIXTURE(ManualFixture, "a captured fill of rows runs at each launch") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8)(memory, 0, 64));
  const CUgraphExec exec = make_executable(capture(
      [&](CUstream stream) { OK(CU(cuMemsetD2D16Async)(memory, 32, 0x0909, 2, 2, stream)); }));
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(memory + 32, 4) == bytes_of(4, 9));
  CHECK(sim.peek(memory + 36, 4) == bytes_of(4, 0));
}

}  // namespace memset_test
