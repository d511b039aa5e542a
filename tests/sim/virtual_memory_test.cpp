// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_fixture.hpp"

namespace virtual_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2 << 20;
using Block = CUmemGenericAllocationHandle;

struct VmmFixture : SimFixture {
  explicit VmmFixture(const char* config = "devices=2,memory=64MiB") : SimFixture(config) {}

  static CUdeviceptr reserve(std::size_t granules) {
    CUdeviceptr pointer = 0;
    OK(CU(cuMemAddressReserve)(&pointer, granules * kGranule, 0, 0, 0));
    return pointer;
  }
  static Block create(std::size_t granules = 1, int device = 0) {
    Block block = 0;
    const CUmemAllocationProp properties = properties_on(device);
    OK(CU(cuMemCreate)(&block, granules * kGranule, &properties, 0));
    return block;
  }
  static CUresult map(CUdeviceptr pointer, Block block, std::size_t granules = 1) {
    return CU(cuMemMap)(pointer, granules * kGranule, 0, block, 0);
  }
  static CUresult allow(CUdeviceptr pointer, std::size_t granules = 1, int device = 0,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access = access_for(device, flags);
    return CU(cuMemSetAccess)(pointer, granules * kGranule, &access, 1);
  }
  static CUresult fill(CUdeviceptr pointer, unsigned char value, std::size_t bytes) {
    return CU(cuMemsetD8Async)(pointer, value, bytes, nullptr);
  }
  /// A mapped and open granule.
  static CUdeviceptr make_open() {
    const CUdeviceptr pointer = reserve(1);
    OK(map(pointer, create()));
    OK(allow(pointer));
    return pointer;
  }
};

struct ManualVmmFixture : VmmFixture {
  ManualVmmFixture() : VmmFixture("devices=2,memory=64MiB,progress=manual") {}
};

CUresult create_with(const CUmemAllocationProp& properties, std::size_t bytes = kGranule) {
  Block block = 0;
  return CU(cuMemCreate)(&block, bytes, &properties, 0);
}

}  // namespace

TEST_CASE_FIXTURE(VmmFixture, "the minimum and recommended granularity are the configured one") {
  const CUmemAllocationProp properties = properties_on(1);
  std::size_t granularity = 0;
  CHECK(CU(cuMemGetAllocationGranularity)(&granularity, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CHECK(granularity == kGranule);
  CHECK(CU(cuMemGetAllocationGranularity)(&granularity, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS);
  CHECK(granularity == kGranule);
  CHECK(CU(cuMemGetAllocationGranularity)(nullptr, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemGetAllocationGranularity)(
            &granularity, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("without virtual memory management its calls are not supported") {
  const SimFixture fixture("vmm=off");
  CUdeviceptr pointer = 0;
  std::size_t granularity = 0;
  const CUmemAllocationProp properties = properties_on(0);
  const CUmemAccessDesc access = access_for(0);
  CHECK(CU(cuMemGetAllocationGranularity)(&granularity, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemAddressReserve)(&pointer, kGranule, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemAddressFree)(kGranule, kGranule) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(create_with(properties) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemRelease)(1) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemMap)(kGranule, kGranule, 0, 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemUnmap)(kGranule, kGranule) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemSetAccess)(kGranule, kGranule, &access, 1) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_FIXTURE(VmmFixture, "addresses use no memory and are aligned as requested") {
  CUdeviceptr pointer = 0;
  CHECK(CU(cuMemAddressReserve)(&pointer, 1ULL << 40, 1ULL << 30, 0, 0) == CUDA_SUCCESS);
  CHECK(pointer % (1ULL << 30) == 0);
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(CU(cuMemAddressFree)(pointer, 1ULL << 40) == CUDA_SUCCESS);
  CHECK(reserve(1) % kGranule == 0);
}

TEST_CASE_FIXTURE(VmmFixture, "a hint is followed if its addresses are free") {
  const CUdeviceptr first = reserve(4);
  OK(CU(cuMemAddressFree)(first, 4 * kGranule));
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAddressReserve)(&pointer, kGranule, 0, first + 2 * kGranule, 0));
  CHECK(pointer == first + 2 * kGranule);
  CUdeviceptr elsewhere = 0;
  OK(CU(cuMemAddressReserve)(&elsewhere, kGranule, 0, first + 2 * kGranule, 0));
  CHECK(elsewhere != pointer);
}

TEST_CASE_FIXTURE(VmmFixture, "reservations are checked") {
  CUdeviceptr pointer = 0;
  CHECK(CU(cuMemAddressReserve)(nullptr, kGranule, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, 100, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, kGranule, 3, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, kGranule, 0, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, kGranule, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressReserve)(&pointer, 1ULL << 63, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAddressReserve)(&pointer, kGranule, 1ULL << 63, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE_FIXTURE(VmmFixture, "a reservation is freed whole, unmapped, and once") {
  const CUdeviceptr pointer = reserve(2);
  const Block block = create();
  OK(map(pointer, block));
  CHECK(CU(cuMemAddressFree)(pointer, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemUnmap)(pointer, kGranule));
  CHECK(CU(cuMemAddressFree)(pointer, kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressFree)(pointer + kGranule, kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAddressFree)(pointer, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(CU(cuMemAddressFree)(pointer, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(reserve(1)) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture, "physical memory is created in granules until the device is full") {
  CUmemAllocationProp properties = properties_on(0);
  CHECK(create_with(properties, kGranule / 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create_with(properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(create_with(properties, 33 * kGranule) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(create_with(properties, 1ULL << 62) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(create_with(properties, 32 * kGranule) == CUDA_SUCCESS);
  CHECK(create_with(properties) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(create_with(properties_on(1)) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(1) == kGranule);
}

TEST_CASE_FIXTURE(VmmFixture, "invalid or unsupported properties are refused") {
  CHECK(create_with(properties_on(2)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(create_with(properties_on(-1)) == CUDA_ERROR_INVALID_DEVICE);
  CUmemAllocationProp properties = properties_on(0);
  properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  CHECK(create_with(properties) == CUDA_ERROR_INVALID_VALUE);
  properties = properties_on(0);
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  CHECK(create_with(properties) == CUDA_ERROR_INVALID_VALUE);
  properties = properties_on(0);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
  CHECK(create_with(properties) == CUDA_ERROR_NOT_SUPPORTED);
  Block block = 0;
  properties = properties_on(0);
  CHECK(CU(cuMemCreate)(&block, kGranule, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemCreate)(nullptr, kGranule, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemCreate)(&block, kGranule, &properties, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture, "a released handle is invalid, and its memory lives while mapped") {
  const CUdeviceptr pointer = reserve(2);
  const Block block = create();
  OK(map(pointer, block));
  OK(map(pointer + kGranule, block));
  OK(allow(pointer, 2));
  CHECK(CU(cuMemRelease)(block) == CUDA_SUCCESS);
  CHECK(CU(cuMemRelease)(block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill(pointer, 1, kGranule) == CUDA_SUCCESS);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemUnmap)(pointer, kGranule));
  CHECK(sim.device_bytes_used(0) == kGranule);
  OK(CU(cuMemUnmap)(pointer + kGranule, kGranule));
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(CU(cuMemRelease)(0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemRelease)(~0ULL) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture,
                  "unmapping one of two mappings affects only work through that mapping") {
  const CUdeviceptr first = reserve(1);
  const CUdeviceptr second = reserve(1);
  const Block block = create();
  for (const CUdeviceptr pointer : {first, second}) {
    OK(map(pointer, block));
    OK(allow(pointer));
  }
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(first, 7, 64, stream));
  OK(CU(cuMemUnmap)(second, kGranule));
  CHECK(sim.take_findings().empty());
  OK(CU(cuMemUnmap)(first, kGranule));
  const auto findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().find("nothing waited for that") != std::string::npos);
}

TEST_CASE_FIXTURE(ManualVmmFixture,
                  "of pending work that uses unmapped memory, a finding names what came first") {
  const CUdeviceptr pointer = make_open();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const auto copy_from = [&](CUstream stream) {
    OK(CU(cuMemcpyDtoDAsync)(make_memory(64), pointer, 64, stream));
  };
  SUBCASE("though another stream was created first") {
    OK(CU(cuMemsetD8Async)(pointer, 1, 64, second));
    copy_from(first);
  }
  SUBCASE("though another stream became busy first") {
    OK(CU(cuMemsetD8Async)(make_memory(64), 1, 64, first));
    OK(CU(cuMemsetD8Async)(pointer, 1, 64, second));
    copy_from(first);
  }
  OK(CU(cuMemUnmap)(pointer, kGranule));
  const auto findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().find("cuMemsetD8Async") != std::string::npos);
}

TEST_CASE_FIXTURE(VmmFixture,
                  "a mapping lies inside a reservation, on free addresses, from offset zero") {
  const CUdeviceptr pointer = reserve(2);
  const Block block = create(2);
  CHECK(CU(cuMemMap)(pointer, kGranule, kGranule, block, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemMap)(pointer, kGranule, 0, block, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemMap)(pointer, 0, 0, block, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemMap)(pointer, 4096, 0, block, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemMap)(pointer + 4096, kGranule, 0, block, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer + kGranule, block, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer, create(1), 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer + 64 * kGranule, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(0, block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(make_memory(kGranule), block) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer, 77) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer + kGranule, block, 1) == CUDA_SUCCESS);
  CHECK(map(pointer + kGranule, block, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer, block, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(pointer, block, 1) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(VmmFixture, "only whole mappings are unmapped, adjacent ones together") {
  const CUdeviceptr pointer = reserve(4);
  OK(map(pointer, create(2), 2));
  OK(map(pointer + 2 * kGranule, create()));
  CHECK(CU(cuMemUnmap)(pointer, kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemUnmap)(pointer + kGranule, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemUnmap)(pointer, 4 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemUnmap)(pointer, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemUnmap)(make_memory(kGranule), kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().mappings == 2);
  CHECK(CU(cuMemUnmap)(pointer, 3 * kGranule) == CUDA_SUCCESS);
  CHECK(CU(cuMemUnmap)(pointer, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().mappings == 0);
}

TEST_CASE_FIXTURE(VmmFixture,
                  "mapped memory is inaccessible until access is set, for each device and kind") {
  const CUdeviceptr pointer = reserve(1);
  const CUdeviceptr other = make_memory(64);
  OK(map(pointer, create()));
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyAsync)(other, pointer, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer, 1, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyAsync)(other, pointer, 64, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyAsync)(pointer, other, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer));
  CHECK(fill(pointer, 1, 64) == CUDA_SUCCESS);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer, 1, 1));
  CHECK(fill(pointer, 1, 64) == CUDA_SUCCESS);
  OK(allow(pointer, 1, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer, 1, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  CHECK(CU(cuMemcpyAsync)(other, pointer, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture, "a new mapping is inaccessible") {
  const CUdeviceptr pointer = make_open();
  OK(CU(cuMemUnmap)(pointer, kGranule));
  OK(map(pointer, create()));
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture,
                  "access is set on whole mappings and for real devices, or not at all") {
  const CUdeviceptr pointer = reserve(3);
  OK(map(pointer, create(2), 2));
  CHECK(allow(pointer, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(pointer, 3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(pointer + 2 * kGranule, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(pointer, 2, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(allow(pointer, 2, 0, static_cast<CUmemAccess_flags>(2)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemSetAccess)(pointer, 2 * kGranule, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc both[] = {access_for(0), access_for(9)};
  CHECK(CU(cuMemSetAccess)(pointer, 2 * kGranule, both, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemSetAccess)(pointer, 2 * kGranule, both, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(fill(pointer, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemSetAccess)(pointer, 2 * kGranule, both, 1) == CUDA_SUCCESS);
  CHECK(fill(pointer, 1, 64) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(VmmFixture,
                  "work spans neighboring mappings, but no gap and no two reservations") {
  const CUdeviceptr pointer = reserve(4);
  OK(map(pointer, create()));
  OK(map(pointer + kGranule, create()));
  OK(allow(pointer, 2));
  CHECK(fill(pointer + kGranule - 2, 9, 4) == CUDA_SUCCESS);
  CHECK(sim.peek(pointer + kGranule - 2, 4) == bytes_of(4, 9));
  CHECK(fill(pointer + kGranule, 9, kGranule + 1) == CUDA_ERROR_INVALID_VALUE);
  OK(map(pointer + 3 * kGranule, create()));
  OK(allow(pointer + 3 * kGranule));
  CHECK(fill(pointer, 9, 4 * kGranule) == CUDA_ERROR_INVALID_VALUE);

  CUdeviceptr next = 0;
  OK(CU(cuMemAddressReserve)(&next, kGranule, 0, pointer + 4 * kGranule, 0));
  REQUIRE(next == pointer + 4 * kGranule);
  OK(map(next, create()));
  OK(allow(next));
  CHECK(fill(next - 1, 9, 2) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(VmmFixture, "work over several mappings needs access to each") {
  const CUdeviceptr pointer = reserve(2);
  OK(map(pointer, create()));
  OK(map(pointer + kGranule, create()));
  OK(allow(pointer));
  CHECK(fill(pointer, 9, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer + kGranule, 1, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CHECK(fill(pointer, 9, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  OK(allow(pointer + kGranule));
  CHECK(fill(pointer, 9, 2 * kGranule) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(VmmFixture, "copies across several mappings copy every byte") {
  const CUdeviceptr from = reserve(3);
  const CUdeviceptr to = reserve(3);
  OK(map(from, create()));
  OK(map(from + kGranule, create(2), 2));
  OK(map(to, create(2), 2));
  OK(map(to + 2 * kGranule, create()));
  OK(allow(from, 3));
  OK(allow(to, 3));
  std::vector<unsigned char> pattern(3 * kGranule);
  for (std::size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = static_cast<unsigned char>(i * 31 + i / 999);
  OK(CU(cuMemcpyAsync)(from, address_of(pattern.data()), pattern.size(), nullptr));
  OK(CU(cuMemcpyAsync)(to + 5, from + 7, pattern.size() - 7, nullptr));
  CHECK(sim.peek(to + 5, pattern.size() - 7) ==
        std::vector<unsigned char>(pattern.begin() + 7, pattern.end()));
}

TEST_CASE_FIXTURE(
    ManualVmmFixture,
    "unmapping does not wait, and pending work on the memory is reported and faults") {
  const CUdeviceptr pointer = make_open();
  const CUdeviceptr other = make_memory(64);
  OK(CU(cuMemsetD8Async)(other, 3, 64, nullptr));
  OK(fill(pointer, 1, 64));
  OK(CU(cuMemsetD8Async)(other, 4, 64, nullptr));
  OK(CU(cuMemUnmap)(pointer, kGranule));
  CHECK(found_race(sim));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(sim.peek(other, 64) == bytes_of(64, 3));
  CUdeviceptr more = 0;
  CHECK(CU(cuMemAlloc)(&more, 64) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  // Another context, and the next life of this one, work.
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  OK(CU(cuCtxSetCurrent)(retain(0)));
  CHECK(CU(cuMemAlloc)(&more, 64) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(VmmFixture, "attributes of mapped and reserved addresses can be queried") {
  const CUdeviceptr pointer = reserve(2);
  OK(map(pointer, create(1, 1)));
  unsigned type = 0;
  int device = -1;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CUcontext owner = context;
  CHECK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 5) ==
        CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  OK(CU(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + 5));
  CHECK(device == 1);
  OK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
  CHECK(owner == nullptr);
  for (const CUdeviceptr inside : {pointer + 5, pointer + kGranule + 5}) {
    OK(CU(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
    OK(CU(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
    CHECK(start == pointer);
    CHECK(bytes == 2 * kGranule);
  }
  CHECK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + kGranule) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("enabling access between unconnected devices fails") {
  const SimFixture fixture("devices=2,memory=64MiB,peer=off");
  const CUdeviceptr pointer = VmmFixture::reserve(1);
  OK(VmmFixture::map(pointer, VmmFixture::create(1, 1)));
  CHECK(VmmFixture::allow(pointer, 1, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(VmmFixture::allow(pointer, 1, 1) == CUDA_SUCCESS);
}

}  // namespace virtual_memory_test
