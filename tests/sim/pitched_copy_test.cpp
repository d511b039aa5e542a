// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "sim/graph_fixture.hpp"
#include "sim/per_thread_functions.hpp"

namespace pitched_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kWidth = 8;
constexpr std::size_t kRows = 4;
constexpr std::size_t kPitch = 16;
constexpr std::size_t kBytes = kPitch * kRows;

CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.srcPitch = kPitch;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = to;
  copy.dstPitch = kPitch;
  copy.WidthInBytes = kWidth;
  copy.Height = kRows;
  return copy;
}

CUresult copy_rows(const CUDA_MEMCPY2D& copy) {
  return CU(cuMemcpy2D)(&copy);
}

std::vector<unsigned char> counted(std::size_t bytes) {
  std::vector<unsigned char> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<unsigned char>(i);
  return content;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "rows are copied with one pitch to the device and another back") {
  const std::vector<unsigned char> out = counted(kBytes);
  std::vector<unsigned char> back(kWidth * kRows);
  const CUdeviceptr device = make_memory(4096);
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = out.data();
  in.srcPitch = kPitch;
  in.srcXInBytes = 3;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = device;
  in.dstPitch = 512;
  in.dstXInBytes = 5;
  in.dstY = 2;
  in.WidthInBytes = kWidth;
  in.Height = kRows;
  CHECK(copy_rows(in) == CUDA_SUCCESS);
  CUDA_MEMCPY2D home{};
  home.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  home.srcDevice = device;
  home.srcPitch = 512;
  home.srcXInBytes = 5;
  home.srcY = 2;
  home.dstMemoryType = CU_MEMORYTYPE_HOST;
  home.dstHost = back.data();
  home.dstPitch = kWidth;
  home.WidthInBytes = kWidth;
  home.Height = kRows;
  CHECK(CU(cuMemcpy2DUnaligned)(&home) == CUDA_SUCCESS);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t x = 0; x < kWidth; ++x)
      REQUIRE(back[row * kWidth + x] == out[row * kPitch + 3 + x]);
}

TEST_CASE_FIXTURE(ManualFixture, "bytes between the rows do not change") {
  const CUdeviceptr first = make_memory(kBytes);
  const CUdeviceptr second = make_memory(kBytes);
  OK(CU(cuMemsetD8)(first, 1, kBytes));
  OK(CU(cuMemsetD8)(second, 2, kBytes));
  const CUDA_MEMCPY2D copy = rows(second, first);
  CHECK(CU(cuMemcpy2DAsync)(&copy, nullptr) == CUDA_SUCCESS);
  OK(CU(cuCtxSynchronize)());
  const std::vector<unsigned char> content = sim.peek(second, kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) REQUIRE(content[i] == (i % kPitch < kWidth ? 1 : 2));
}

TEST_CASE_FIXTURE(ManualFixture, "pageable rows are staged, and pinned rows are read late") {
  std::vector<unsigned char> host = bytes_of(kBytes, 5);
  unsigned char* pinned = make_pinned(kBytes);
  std::memset(pinned, 5, kBytes);
  const CUdeviceptr device = make_memory(kBytes);
  const CUstream stream = make_stream();
  const CUDA_MEMCPY2D pageable_copy = rows(device, address_of(host.data()));
  CHECK(CU(cuMemcpy2DAsync)(&pageable_copy, stream) == CUDA_SUCCESS);
  host.assign(kBytes, 6);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(device + kPitch, kWidth) == bytes_of(kWidth, 5));
  const CUDA_MEMCPY2D pinned_copy = rows(device, address_of(pinned));
  CHECK(CU(cuMemcpy2DAsync)(&pinned_copy, stream) == CUDA_SUCCESS);
  std::memset(pinned, 6, kBytes);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(device + kPitch, kWidth) == bytes_of(kWidth, 6));
}

TEST_CASE_FIXTURE(ManualFixture, "a memory type determines the required kind of address") {
  const CUdeviceptr device = make_memory(kBytes);
  std::vector<unsigned char> host(kBytes);
  CUDA_MEMCPY2D copy = rows(device, device);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = reinterpret_cast<void*>(device);
  CHECK(copy_rows(copy) == CUDA_ERROR_INVALID_VALUE);
  copy.srcHost = host.data();
  CHECK(copy_rows(copy) == CUDA_SUCCESS);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address_of(host.data());
  CHECK(copy_rows(copy) == CUDA_ERROR_INVALID_VALUE);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  CHECK(copy_rows(copy) == CUDA_ERROR_NOT_SUPPORTED);
  copy.srcMemoryType = static_cast<CUmemorytype>(0);
  CHECK(copy_rows(copy) == CUDA_ERROR_INVALID_VALUE);
  copy.srcMemoryType = static_cast<CUmemorytype>(7);
  CHECK(copy_rows(copy) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "a pitch covers its row, and is no larger than the device allows") {
  const CUdeviceptr device = make_memory(kBytes);
  const CUdeviceptr other = make_memory(kBytes);
  const auto with = [&](auto&& change) {
    CUDA_MEMCPY2D copy = rows(device, other);
    change(copy);
    return copy_rows(copy);
  };
  CHECK(with([](CUDA_MEMCPY2D& copy) { copy.srcPitch = kWidth; }) == CUDA_SUCCESS);
  CHECK(with([](CUDA_MEMCPY2D& copy) { copy.srcPitch = kWidth - 1; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with([](CUDA_MEMCPY2D& copy) { copy.dstPitch = kWidth - 1; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with([](CUDA_MEMCPY2D& copy) {
          copy.srcPitch = kWidth;
          copy.srcXInBytes = 1;
        }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with([](CUDA_MEMCPY2D& copy) { copy.srcPitch = 0; }) == CUDA_ERROR_INVALID_VALUE);
  const auto one_row = [](CUDA_MEMCPY2D& copy) {
    copy.Height = 1;
    copy.srcPitch = 0;
    copy.dstPitch = 0;
  };
  CHECK(with(one_row) == CUDA_SUCCESS);
  CHECK(with([&](CUDA_MEMCPY2D& copy) {
          one_row(copy);
          copy.srcY = 1;
        }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with([](CUDA_MEMCPY2D& copy) {
          copy.Height = 1;
          copy.srcPitch = 2147483647;
        }) == CUDA_SUCCESS);
  CHECK(with([](CUDA_MEMCPY2D& copy) {
          copy.Height = 1;
          copy.srcPitch = 2147483648;
        }) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "rows beyond their memory and invalid sizes are refused") {
  const CUdeviceptr device = make_memory(512);
  const CUdeviceptr neighbor = make_memory(512);
  REQUIRE(neighbor == device + 512);
  const auto with = [&](std::size_t width, std::size_t height, std::size_t y) {
    CUDA_MEMCPY2D copy = rows(device, neighbor);
    copy.dstPitch = copy.srcPitch = 128;
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.dstY = y;
    return copy_rows(copy);
  };
  CHECK(with(128, 4, 0) == CUDA_SUCCESS);
  CHECK(with(1, 5, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(1, 4, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(1, 1, 3) == CUDA_SUCCESS);
  CHECK(with(SIZE_MAX, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(1, SIZE_MAX, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(1, 1, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(1, 1, SIZE_MAX / 128) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with(0, 9, 0) == CUDA_SUCCESS);
  CHECK(with(9, 0, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpy2D)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy2DUnaligned)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy2DAsync)(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  const CUDA_MEMCPY2D copy = rows(device, neighbor);
  CHECK(CU(cuMemcpy2DAsync)(&copy, reinterpret_cast<CUstream>(99)) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(ManualFixture, "only the bytes of rows take part in races") {
  const CUdeviceptr device = make_memory(kBytes);
  const CUDA_MEMCPY2D left = rows(device, make_memory(kBytes));
  CUDA_MEMCPY2D right = rows(device, make_memory(kBytes));
  right.dstXInBytes = kWidth;
  OK(CU(cuMemcpy2DAsync)(&left, make_stream()));
  OK(CU(cuMemcpy2DAsync)(&right, make_stream()));
  sim.run_all();
  CHECK(sim.take_findings().empty());
  right.dstXInBytes = kWidth - 1;
  OK(CU(cuMemcpy2DAsync)(&right, make_stream()));
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "a per-thread form copies on the thread's own stream") {
  const CUDA_MEMCPY2D copy = rows(make_memory(kBytes), make_memory(kBytes));
  OK(CU(cuMemcpy2D_v2_ptds)(&copy));
  OK(CU(cuMemcpy2DAsync_v2_ptsz)(&copy, nullptr));
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 2);
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "captured rows are copied at each launch") {
  const CUdeviceptr device = make_memory(kBytes);
  unsigned char* pinned = make_pinned(kBytes);
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    const CUDA_MEMCPY2D copy = rows(device, address_of(pinned));
    OK(CU(cuMemcpy2DAsync)(&copy, stream));
  }));
  for (const unsigned char value : std::vector<unsigned char>{3, 4}) {
    std::memset(pinned, value, kBytes);
    OK(CU(cuGraphLaunch)(exec, nullptr));
    OK(CU(cuCtxSynchronize)());
    CHECK(sim.peek(device + 3 * kPitch, kWidth) == bytes_of(kWidth, value));
  }
}

TEST_CASE_FIXTURE(EagerFixture, "pitched memory has room for its rows, each aligned") {
  CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 1000, 7, 4) == CUDA_SUCCESS);
  CHECK(pitch >= 1000);
  CHECK(pitch % 512 == 0);
  CHECK(CU(cuMemsetD2D8)(pointer, pitch, 1, 1000, 7) == CUDA_SUCCESS);
  CHECK(CU(cuMemFree)(pointer) == CUDA_SUCCESS);
  for (const unsigned bytes : {4U, 8U, 16U})
    CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 1, 1, bytes) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "impossible pitched allocations are refused") {
  CUdeviceptr pointer = 17;
  std::size_t pitch = 17;
  CHECK(CU(cuMemAllocPitch)(nullptr, &pitch, 1, 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocPitch)(&pointer, nullptr, 1, 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 0, 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 1, 0, 4) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned bytes : {0U, 1U, 2U, 3U, 32U})
    CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 1, 1, bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, SIZE_MAX, 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 4096, SIZE_MAX, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAllocPitch)(&pointer, &pitch, 4096, 1 << 20, 4) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pointer == 17);
  CHECK(pitch == 17);
}

TEST_CASE_FIXTURE(ManualFixture, "a volume is copied between devices, of any two contexts") {
  constexpr std::size_t kDepth = 3;
  const CUdeviceptr from = make_memory(kDepth * kBytes);
  CUcontext other = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&other, 1));
  OK(CU(cuCtxPushCurrent)(other));
  const CUdeviceptr to = make_memory(kDepth * kBytes);
  const std::vector<unsigned char> content = counted(kDepth * kBytes);
  OK(CU(cuMemcpyHtoD)(from, content.data(), content.size()));
  OK(CU(cuMemsetD8)(to, 0xee, kDepth * kBytes));
  CUDA_MEMCPY3D_PEER copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcContext = context;
  copy.dstContext = other;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.srcHeight = copy.dstHeight = kRows;
  copy.srcZ = 1;
  copy.WidthInBytes = kWidth;
  copy.Height = 2;
  copy.Depth = 2;
  const CUstream stream = make_stream();
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    OK(CU(cuMemsetD8)(to, 0xee, kDepth * kBytes));
    OK(CU(cuCtxSynchronize)());
    OK(waits ? CU(cuMemcpy3DPeer)(&copy) : CU(cuMemcpy3DPeerAsync)(&copy, stream));
    CHECK((sim.pending_operations(waits ? nullptr : stream) == 0) == waits);
    OK(CU(cuStreamSynchronize)(stream));
    for (std::size_t z = 0; z != kDepth; ++z)
      for (std::size_t y = 0; y != kRows; ++y) {
        const bool is_copied = z < 2 && y < 2;
        const auto row =
            content.begin() + static_cast<std::ptrdiff_t>((z + 1) * kBytes + y * kPitch);
        CHECK(sim.peek(to + z * kBytes + y * kPitch, kWidth) ==
              (is_copied ? std::vector<unsigned char>(row, row + kWidth) : bytes_of(kWidth, 0xee)));
      }
  }
  copy.srcContext = other;
  CHECK(CU(cuMemcpy3DPeer)(&copy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DPeerAsync)(&copy, stream) == CUDA_ERROR_INVALID_VALUE);
  copy.srcContext = nullptr;
  CHECK(CU(cuMemcpy3DPeer)(&copy) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemcpy3DPeer)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DPeerAsync)(nullptr, stream) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace pitched_copy_test
