// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cudart/cudart_fixture.hpp"

namespace cudart_memory_test {

using namespace berth::test;

TEST_CASE_FIXTURE(EagerRuntime,
                  "an allocation of 0 bytes returns null, and freeing null does nothing") {
  void* pointer = &pointer;
  OK(cudaMalloc(&pointer, 0));
  CHECK(pointer == nullptr);
  pointer = &pointer;
  OK(cudaMallocHost(&pointer, 0));
  CHECK(pointer == nullptr);
  OK(cudaFree(nullptr));
  OK(cudaFreeHost(nullptr));
  CHECK(sim.live().allocations == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "memory is freed once, and only by the function for its kind") {
  unsigned char* const device = make_memory(100);
  unsigned char* const host = make_pinned(100);
  CHECK(cudaFree(host) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(device) == cudaErrorInvalidValue);
  OK(cudaFree(device));
  OK(cudaFreeHost(host));
  CHECK(cudaFree(device) == cudaErrorInvalidValue);
  CHECK(sim.live().allocations == 0);
  CHECK(sim.live().host_allocations == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "copies of pitched memory honor the pitch") {
  void* pointer = nullptr;
  std::size_t pitch = 0;
  OK(cudaMallocPitch(&pointer, &pitch, 100, 3));
  CHECK(pitch >= 100);
  CHECK(pitch % 512 == 0);
  const Bytes source = counted(300);
  OK(cudaMemcpy2D(pointer, pitch, source.data(), 100, 100, 3, cudaMemcpyHostToDevice));
  Bytes back(300);
  OK(cudaMemcpy2D(back.data(), 100, pointer, pitch, 100, 3, cudaMemcpyDeviceToHost));
  CHECK(back == source);
  CHECK(cudaMemcpy2D(back.data(), 99, pointer, pitch, 100, 3, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidPitchValue);
}

TEST_CASE_FIXTURE(EagerRuntime, "a volume is copied slice by slice where slices have gaps") {
  cudaPitchedPtr volume{};
  OK(cudaMalloc3D(&volume, {64, 5, 4}));
  CHECK(volume.ysize == 5);
  OK(cudaMemset3D(volume, 0xee, {64, 5, 4}));
  Bytes source = counted(16 * 3 * 2);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {source.data(), 16, 16, 3};
  copy.dstPtr = volume;
  copy.dstPos = {8, 1, 1};
  copy.extent = {16, 3, 2};
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  Bytes back(source.size());
  cudaMemcpy3DParms reverse{};
  reverse.srcPtr = volume;
  reverse.srcPos = {8, 1, 1};
  reverse.dstPtr = {back.data(), 16, 16, 3};
  reverse.extent = {16, 3, 2};
  reverse.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&reverse));
  CHECK(back == source);
  // Around it nothing changed.
  const Bytes whole = read_back(volume.ptr, volume.pitch * 5);
  CHECK(whole[0] == 0xee);
  CHECK(whole[volume.pitch + 8] == 0xee);
  copy.dstPos = {8, 3, 1};
  CHECK(cudaMemcpy3D(&copy) == cudaErrorInvalidValue);
}

TEST_CASE("copies with attributes are those of the driver") {
  const RuntimeFixture fixture("memory=1GiB");
  Bytes source = counted(64);
  unsigned char* const target = make_memory(64);
  cudaMemcpy3DBatchOp volume{};
  volume.src.type = cudaMemcpyOperandTypePointer;
  volume.src.op.ptr.ptr = source.data();
  volume.dst.type = cudaMemcpyOperandTypePointer;
  volume.dst.op.ptr.ptr = target;
  volume.extent = {16, 2, 2};
  volume.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  const cudaStream_t stream = make_stream();
#if BERTH_CUDART_MAJOR == 12
  std::size_t failed = 0;
  OK(copy_volumes(1, &volume, &failed, 0, stream));
  CHECK(failed == SIZE_MAX);
#else
  OK(cudaMemcpy3DBatchAsync(1, &volume, 0, stream));
#endif
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(target, 64) == source);
#if BERTH_CUDART_MAJOR == 13
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  OK(cudaMemcpyWithAttributesAsync(target, source.data() + 32, 32, &attributes, stream));
  volume.extent = {16, 1, 1};
  OK(cudaMemcpy3DWithAttributesAsync(&volume, 0, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(target, 16) == Bytes(source.begin(), source.begin() + 16));
  CHECK(read_back(target + 16, 16) == Bytes(source.begin() + 48, source.end()));
  CHECK(cudaMemcpyWithAttributesAsync(target, source.data(), 32, nullptr, stream) ==
        cudaErrorInvalidValue);
#endif
}

TEST_CASE_FIXTURE(EagerRuntime, "fills repeat the low byte of their value") {
  unsigned char* const memory = make_memory(1000);
  OK(cudaMemset(memory, 0x1234, 1000));
  CHECK(read_back(memory, 1000) == Bytes(1000, 0x34));
  OK(cudaMemset2D(memory, 100, 1, 10, 10));
  const Bytes rows = read_back(memory, 1000);
  CHECK(rows[9] == 1);
  CHECK(rows[10] == 0x34);
  CHECK(rows[909] == 1);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "a copy follows its kind, and the default kind follows the addresses") {
  const Bytes source = counted(4096);
  unsigned char* const a = make_memory(4096);
  unsigned char* const b = make_memory(4096);
  OK(cudaMemcpy(a, source.data(), 4096, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(b, a, 4096, cudaMemcpyDeviceToDevice));
  Bytes back(4096);
  OK(cudaMemcpy(back.data(), b, 4096, cudaMemcpyDeviceToHost));
  CHECK(back == source);
  Bytes again(4096);
  OK(cudaMemcpy(again.data(), back.data(), 4096, cudaMemcpyHostToHost));
  CHECK(again == source);
  CHECK(cudaMemcpy(a, b, 1, static_cast<cudaMemcpyKind>(5)) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(again.data(), source.data(), 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(EagerRuntime, "a peer copy takes both devices") {
  unsigned char* const here = make_memory(4096);
  OK(cudaMemset(here, 5, 4096));
  OK(cudaSetDevice(1));
  unsigned char* const there = make_memory(4096);
  OK(cudaMemcpyPeer(there, 1, here, 0, 4096));
  CHECK(read_back(there, 4096) == Bytes(4096, 5));
  const cudaStream_t stream = make_stream();
  OK(cudaMemsetAsync(there, 6, 4096, stream));
  OK(cudaMemcpyPeerAsync(here, 0, there, 1, 4096, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(here, 4096) == Bytes(4096, 6));
  CHECK(cudaMemcpyPeer(there, 9, here, 0, 4096) == cudaErrorInvalidDevice);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "a pointer has the type, the device and the addresses of its memory") {
  OK(cudaSetDevice(1));
  unsigned char* const device = make_memory(100);
  unsigned char* const host = make_pinned(100);
  void* managed = nullptr;
  OK(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
  Bytes pageable(100);
  PointerAttributes attributes{};
  OK(get_attributes(&attributes, device + 10));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 1);
  CHECK(attributes.devicePointer == device + 10);
  CHECK(attributes.hostPointer == nullptr);
  OK(get_attributes(&attributes, host));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(attributes.hostPointer == host);
  OK(get_attributes(&attributes, managed));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  CHECK(attributes.hostPointer == managed);
  OK(get_attributes(&attributes, pageable.data()));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(attributes.devicePointer == nullptr);
  CHECK(attributes.hostPointer == pageable.data());
  OK(cudaFree(managed));
}

TEST_CASE_FIXTURE(EagerRuntime, "host memory is registered once, and mapped at an address") {
  static unsigned char pages[8192];
  OK(cudaHostRegister(pages, sizeof pages, cudaHostRegisterPortable));
  CHECK(cudaHostRegister(pages, sizeof pages, 0) == cudaErrorHostMemoryAlreadyRegistered);
  void* device = nullptr;
  OK(cudaHostGetDevicePointer(&device, pages, 0));
  CHECK(device == pages);
  OK(cudaHostUnregister(pages));
  CHECK(cudaHostUnregister(pages) == cudaErrorHostMemoryNotRegistered);
  unsigned flags = 0;
  void* allocated = nullptr;
  OK(cudaHostAlloc(&allocated, 100, cudaHostAllocWriteCombined));
  OK(cudaHostGetFlags(&flags, allocated));
  CHECK((flags & cudaHostAllocWriteCombined) != 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "free and total memory are those of the current device") {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cudaMemGetInfo(&free, &total));
  CHECK(total == 1ULL << 30);
  make_memory(64 << 20);
  std::size_t later = 0;
  OK(cudaMemGetInfo(&later, &total));
  CHECK(free - later == 64 << 20);
  OK(cudaSetDevice(1));
  OK(cudaMemGetInfo(&later, &total));
  CHECK(later == free);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "memory of a pool is allocated and freed in the order of a stream") {
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  const cudaStream_t stream = make_stream();
  void* pointer = nullptr;
  OK(cudaMallocAsync(&pointer, 4096, stream));
  OK(cudaMemsetAsync(pointer, 9, 4096, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(pointer, 4096) == Bytes(4096, 9));
  unsigned long long used = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used >= 4096);
  OK(cudaFreeAsync(pointer, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(used == 0);

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t own = nullptr;
  OK(cudaMemPoolCreate(&own, &properties));
  OK(cudaMallocFromPoolAsync(&pointer, 4096, own, stream));
  OK(cudaFreeAsync(pointer, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(own, 0));
  OK(cudaMemPoolDestroy(own));
}

TEST_CASE_FIXTURE(EagerRuntime, "stream-ordered functions refuse 0 bytes and a null pointer") {
  const cudaStream_t stream = make_stream();
  void* pointer = nullptr;
  CHECK(cudaMallocAsync(&pointer, 0, stream) == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(nullptr, stream) == cudaErrorInvalidValue);
  OK(cudaMalloc(&pointer, 0));
  CHECK(pointer == nullptr);
  OK(cudaFree(nullptr));
}

}  // namespace cudart_memory_test
