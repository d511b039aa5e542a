// SPDX-License-Identifier: Apache-2.0
// Physical memory as file descriptors: exported to other processes, imported into this one, and
// invalid descriptors.
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/sim_fixture.hpp"
#include "support/peer_process.hpp"

namespace shareable_handle_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4 << 20;
constexpr const char* kConfig = "memory=64MiB,devices=2";
constexpr const char* kFabric = "memory=64MiB,devices=2,fabric=on";

CUmemAllocationProp shareable_properties(int device = 0) {
  CUmemAllocationProp properties = properties_on(device);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUmemGenericAllocationHandle make_shareable(int device = 0) {
  const CUmemAllocationProp properties = shareable_properties(device);
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemCreate)(&handle, kBytes, &properties, 0));
  return handle;
}

int export_fd(CUmemGenericAllocationHandle handle) {
  int descriptor = -1;
  OK(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      0));
  return descriptor;
}

CUresult import_fd(CUmemGenericAllocationHandle* handle, int descriptor) {
  return CU(cuMemImportFromShareableHandle)(
      handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, int device = 0) {
  CUdeviceptr pointer = 0;
  const CUmemAccessDesc access = access_for(device);
  OK(CU(cuMemAddressReserve)(&pointer, kBytes, 0, 0, 0));
  OK(CU(cuMemMap)(pointer, kBytes, 0, handle, 0));
  OK(CU(cuMemSetAccess)(pointer, kBytes, &access, 1));
  return pointer;
}

void fill(CUdeviceptr pointer, unsigned char value) {
  OK(CU(cuMemsetD8Async)(pointer, value, kBytes, nullptr));
  OK(CU(cuCtxSynchronize)());
}

void send_descriptor(int socket, int descriptor) {
  const unsigned char byte = 1;
  send_message(socket, {&byte, 1}, {descriptor});
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  int descriptor = -1;
  if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr)
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

/// Imports, finds 7, writes 8, and keeps the memory until told.
int import_and_answer(int socket) {
  const int descriptor = receive_descriptor(socket);
  sim::Simulator sim(kConfig);
  NEED(CU(cuInit)(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  NEED(CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
  NEED(CU(cuCtxPushCurrent)(context) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  NEED(import_fd(&handle, descriptor) == CUDA_SUCCESS);
  close(descriptor);
  NEED(sim.device_bytes_used(0) == kBytes);
  CUdeviceptr pointer = 0;
  const CUmemAccessDesc access = access_for(0);
  NEED(CU(cuMemAddressReserve)(&pointer, kBytes, 0, 0, 0) == CUDA_SUCCESS);
  NEED(CU(cuMemMap)(pointer, kBytes, 0, handle, 0) == CUDA_SUCCESS);
  NEED(CU(cuMemSetAccess)(pointer, kBytes, &access, 1) == CUDA_SUCCESS);
  NEED(sim.peek(pointer, kBytes) == bytes_of(kBytes, 7));
  NEED(CU(cuMemsetD8Async)(pointer, 8, kBytes, nullptr) == CUDA_SUCCESS);
  NEED(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  NEED(signal_peer(socket) && await_peer(socket));
  NEED(sim.peek(pointer, kBytes) == bytes_of(kBytes, 8));
  NEED(CU(cuMemRelease)(handle) == CUDA_SUCCESS);
  NEED(CU(cuMemUnmap)(pointer, kBytes) == CUDA_SUCCESS);
  NEED(sim.device_bytes_used(0) == 0);
  NEED(signal_peer(socket) && await_peer(socket));
  return 0;
}

struct ShareFixture : SimFixture {
  explicit ShareFixture(const char* config = kConfig) : SimFixture(config) {}
};

}  // namespace

TEST_CASE("two processes read and write shared memory") {
  PeerProcess peer(import_and_answer);
  const ShareFixture fixture;
  const CUmemGenericAllocationHandle handle = make_shareable();
  const CUdeviceptr pointer = map(handle);
  fill(pointer, 7);
  const int descriptor = export_fd(handle);
  send_descriptor(peer.socket(), descriptor);
  close(descriptor);
  CHECK(await_peer(peer.socket()));
  CHECK(fixture.sim.peek(pointer, kBytes) == bytes_of(kBytes, 8));

  // Freed here, it stays: there, and in the account of the device.
  OK(CU(cuMemUnmap)(pointer, kBytes));
  OK(CU(cuMemRelease)(handle));
  CHECK(fixture.sim.device_bytes_used(0) == kBytes);
  CHECK(signal_peer(peer.socket()));
  CHECK(await_peer(peer.socket()));
  CHECK(fixture.sim.device_bytes_used(0) == 0);
  CHECK(signal_peer(peer.socket()));
  CHECK(peer.join() == 0);
}

TEST_CASE("another process imports memory by its fabric handle while the memory exists") {
  PeerProcess peer([](int socket) {
    CUmemFabricHandle fabric{};
    NEED(recv(socket, &fabric, sizeof fabric, MSG_WAITALL) == sizeof fabric);
    sim::Simulator sim(kFabric);
    NEED(CU(cuInit)(0) == CUDA_SUCCESS);
    CUcontext context = nullptr;
    NEED(CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    NEED(CU(cuCtxPushCurrent)(context) == CUDA_SUCCESS);
    CUmemGenericAllocationHandle handle = 0;
    NEED(CU(cuMemImportFromShareableHandle)(&handle, &fabric, CU_MEM_HANDLE_TYPE_FABRIC) ==
         CUDA_SUCCESS);
    NEED(sim.peek(map(handle), kBytes) == bytes_of(kBytes, 7));
    NEED(signal_peer(socket) && await_peer(socket));
    CUmemGenericAllocationHandle again = 0;
    NEED(CU(cuMemImportFromShareableHandle)(&again, &fabric, CU_MEM_HANDLE_TYPE_FABRIC) ==
         CUDA_SUCCESS);
    _exit(0);
  });
  const ShareFixture fixture(kFabric);
  CUmemAllocationProp properties = shareable_properties();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemCreate)(&handle, kBytes, &properties, 0));
  fill(map(handle), 7);
  CUmemFabricHandle fabric{};
  int descriptor = -1;
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemExportToShareableHandle)(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  CHECK(send(peer.socket(), &fabric, sizeof fabric, 0) == sizeof fabric);
  CHECK(await_peer(peer.socket()));
  CUmemAllocationProp found{};
  OK(CU(cuMemGetAllocationPropertiesFromHandle)(&found, handle));
  CHECK(found.requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC);
  CHECK(found.allocFlags.gpuDirectRDMACapable == 0);  // the device is not capable
  CHECK(signal_peer(peer.socket()));
  CHECK(peer.join() == 0);
  const CUmemFabricHandle none{};
  CUmemGenericAllocationHandle other = 0;
  CHECK(CU(cuMemImportFromShareableHandle)(&other, const_cast<CUmemFabricHandle*>(&none),
                                           CU_MEM_HANDLE_TYPE_FABRIC) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ShareFixture, "a device without fabric handles refuses them") {
  CUmemAllocationProp properties = shareable_properties();
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle handle = make_shareable();
  CUmemFabricHandle fabric{};
  CHECK(CU(cuMemExportToShareableHandle)(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemCreate)(&handle, kBytes, &properties, 0) == CUDA_ERROR_NOT_SUPPORTED);
  int supported = 1;
  OK(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
  CHECK(supported == 0);
}

TEST_CASE("memory of a process that exits is freed") {
  PeerProcess peer([](int socket) {
    const int descriptor = receive_descriptor(socket);
    sim::Simulator sim(kConfig);
    NEED(CU(cuInit)(0) == CUDA_SUCCESS);
    CUmemGenericAllocationHandle handle = 0;
    NEED(import_fd(&handle, descriptor) == CUDA_SUCCESS);
    NEED(signal_peer(socket) && await_peer(socket));
    _exit(0);  // with everything still held
  });
  const ShareFixture fixture;
  const CUmemGenericAllocationHandle handle = make_shareable();
  const int descriptor = export_fd(handle);
  send_descriptor(peer.socket(), descriptor);
  close(descriptor);
  CHECK(await_peer(peer.socket()));
  OK(CU(cuMemRelease)(handle));
  CHECK(fixture.sim.device_bytes_used(0) == kBytes);
  CHECK(signal_peer(peer.socket()));
  CHECK(peer.join() == 0);
  CHECK(fixture.sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(ShareFixture, "memory lives until its last descriptor is closed") {
  const CUmemGenericAllocationHandle handle = make_shareable();
  const CUdeviceptr first = map(handle);
  fill(first, 5);
  const int descriptor = export_fd(handle);
  const int copy = dup(descriptor);
  OK(CU(cuMemUnmap)(first, kBytes));
  OK(CU(cuMemRelease)(handle));
  close(descriptor);
  CHECK(sim.device_bytes_used(0) == kBytes);
  CUmemGenericAllocationHandle again = 0;
  CHECK(import_fd(&again, copy) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(0) == kBytes);
  close(copy);
  CHECK(sim.peek(map(again), kBytes) == bytes_of(kBytes, 5));
  OK(CU(cuMemRelease)(again));  // the mapping keeps it
  CHECK(sim.device_bytes_used(0) == kBytes);
}

TEST_CASE_FIXTURE(ShareFixture, "two handles of one process to the same memory count once") {
  const CUmemGenericAllocationHandle handle = make_shareable(1);
  const int descriptor = export_fd(handle);
  CUmemGenericAllocationHandle second = 0;
  CHECK(import_fd(&second, descriptor) == CUDA_SUCCESS);
  close(descriptor);
  CHECK(sim.device_bytes_used(1) == kBytes);
  CHECK(sim.live().physical_handles == 2);
  const CUdeviceptr one = map(handle);
  const CUdeviceptr two = map(second);
  fill(one, 3);
  CHECK(sim.peek(two, 100) == bytes_of(100, 3));
  OK(CU(cuMemUnmap)(one, kBytes));
  OK(CU(cuMemRelease)(handle));
  CHECK(sim.peek(two, 100) == bytes_of(100, 3));
  OK(CU(cuMemUnmap)(two, kBytes));
  CHECK(sim.device_bytes_used(1) == kBytes);
  OK(CU(cuMemRelease)(second));
  CHECK(sim.device_bytes_used(1) == 0);
}

TEST_CASE_FIXTURE(ShareFixture, "shareable memory takes memory of its device") {
  const CUmemAllocationProp properties = shareable_properties();
  CUmemGenericAllocationHandle handle = 0;
  CHECK(CU(cuMemCreate)(&handle, 66 << 20, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemCreate)(&handle, 64 << 20, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CHECK(CU(cuMemAlloc)(&pointer, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemRelease)(handle));
  CHECK(CU(cuMemAlloc)(&pointer, 1) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ShareFixture, "unshareable memory and invalid handles are not exported") {
  int descriptor = -1;
  const CUmemAllocationProp properties = properties_on(0);
  CUmemGenericAllocationHandle plain = 0;
  OK(CU(cuMemCreate)(&plain, kBytes, &properties, 0));
  const auto fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, plain, fd, 0) == CUDA_ERROR_INVALID_VALUE);
  const CUmemGenericAllocationHandle handle = make_shareable();
  CHECK(CU(cuMemExportToShareableHandle)(nullptr, handle, fd, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, handle, fd, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, 0, fd, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_NONE, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(descriptor == -1);
}

TEST_CASE_FIXTURE(ShareFixture, "foreign descriptors are refused") {
  CUmemGenericAllocationHandle handle = 0;
  const SocketPair sockets;
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const int sealed = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(sealed, 3 * 4096) == 0);
  REQUIRE(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  const int empty = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  for (const int wrong : {-1, 1 << 30, sockets.end(0), file, sealed, empty}) {
    CAPTURE(wrong);
    CHECK(import_fd(&handle, wrong) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(import_fd(nullptr, sealed) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemImportFromShareableHandle)(&handle, nullptr, CU_MEM_HANDLE_TYPE_WIN32) ==
        CUDA_ERROR_NOT_SUPPORTED);
  for (const int mine : {file, sealed, empty}) close(mine);
}

TEST_CASE("memory of a device that is not there cannot be imported") {
  int descriptor = -1;
  {
    const ShareFixture fixture;
    descriptor = export_fd(make_shareable(1));
  }
  CUmemGenericAllocationHandle handle = 0;
  {
    const SimFixture fixture("memory=64MiB,devices=1");
    CHECK(import_fd(&handle, descriptor) == CUDA_ERROR_NOT_SUPPORTED);
  }
  {
    const SimFixture fixture("memory=64MiB,devices=2,granularity=8MiB");
    CHECK(import_fd(&handle, descriptor) == CUDA_ERROR_NOT_SUPPORTED);
  }
  const ShareFixture fixture;
  CHECK(import_fd(&handle, descriptor) == CUDA_SUCCESS);
  CHECK(fixture.sim.device_bytes_used(1) == kBytes);
  close(descriptor);
}

TEST_CASE_FIXTURE(ShareFixture, "a handle retained by address must be released as often") {
  const CUmemGenericAllocationHandle handle = make_shareable();
  const CUdeviceptr pointer = map(handle);
  OK(CU(cuMemRelease)(handle));
  CHECK(CU(cuMemRelease)(handle) == CUDA_ERROR_INVALID_VALUE);
  CUmemGenericAllocationHandle retained = 0;
  const auto address = reinterpret_cast<void*>(pointer + 12345);
  CHECK(CU(cuMemRetainAllocationHandle)(&retained, address) == CUDA_SUCCESS);
  CHECK(retained == handle);
  CHECK(CU(cuMemRetainAllocationHandle)(&retained, address) == CUDA_SUCCESS);
  OK(CU(cuMemUnmap)(pointer, kBytes));
  CHECK(CU(cuMemRelease)(handle) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(0) == kBytes);
  CHECK(CU(cuMemRelease)(handle) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(CU(cuMemRelease)(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemRetainAllocationHandle)(&retained, address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemRetainAllocationHandle)(&retained, reinterpret_cast<void*>(make_memory(512))) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ShareFixture,
                  "the properties of a handle and the access of an address can be queried") {
  CUmemAllocationProp properties{};
  const CUmemGenericAllocationHandle handle = make_shareable(1);
  CHECK(CU(cuMemGetAllocationPropertiesFromHandle)(&properties, handle) == CUDA_SUCCESS);
  CHECK(properties.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(properties.location.id == 1);
  CHECK(CU(cuMemGetAllocationPropertiesFromHandle)(nullptr, handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemGetAllocationPropertiesFromHandle)(&properties, 5) == CUDA_ERROR_INVALID_VALUE);

  const CUdeviceptr pointer = map(handle, 0);
  unsigned long long flags = 99;
  CUmemLocation location = access_for(0).location;
  CHECK(CU(cuMemGetAccess)(&flags, &location, pointer + 10) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUmemAccessDesc readable = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  OK(CU(cuMemSetAccess)(pointer, kBytes, &readable, 1));
  CHECK(CU(cuMemGetAccess)(&flags, &location, pointer) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
  location.id = 1;
  CHECK(CU(cuMemGetAccess)(&flags, &location, pointer) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  location.id = 2;
  CHECK(CU(cuMemGetAccess)(&flags, &location, pointer) == CUDA_ERROR_INVALID_DEVICE);
  location.id = 0;
  CHECK(CU(cuMemGetAccess)(&flags, &location, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemGetAccess)(nullptr, &location, pointer) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace shareable_handle_test
