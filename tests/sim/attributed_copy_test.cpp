// SPDX-License-Identifier: Apache-2.0
// Single copies with attributes, and copies of volumes with attributes.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace attributed_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr auto kStream = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
constexpr auto kDuringCall = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
constexpr auto kAny = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
constexpr CUmemcpySrcAccessOrder kOrders[] = {kStream, kDuringCall, kAny};

std::string with(const std::string& progress) {
  return "memory=1GiB,driver_version=13020,progress=" + progress;
}

struct AttributedFixture : SimFixture {
  AttributedFixture() : SimFixture(with("manual")) {}
};

CUDA_MEMCPY3D_BATCH_OP volume_of(CUdeviceptr to, CUdeviceptr from, const CUextent3D& extent,
                                 CUmemcpySrcAccessOrder order = kStream) {
  CUDA_MEMCPY3D_BATCH_OP copy{};
  copy.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = from;
  copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.dst.op.ptr.ptr = to;
  copy.extent = extent;
  copy.srcAccessOrder = order;
  return copy;
}

/// The functions that copy one range with attributes.
enum class Form { plain, volume, batch_of_volumes };
constexpr Form kForms[] = {Form::plain, Form::volume, Form::batch_of_volumes};

CUresult copy(Form form, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream,
              CUmemcpySrcAccessOrder order = kStream, unsigned flags = 0) {
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  attributes.flags = flags;
  CUDA_MEMCPY3D_BATCH_OP volume = volume_of(to, from, {bytes, 1, 1}, order);
  volume.flags = flags;
  switch (form) {
    case Form::plain:
      return CU(cuMemcpyWithAttributesAsync)(to, from, bytes, &attributes, stream);
    case Form::volume:
      return CU(cuMemcpy3DWithAttributesAsync)(&volume, 0, stream);
    case Form::batch_of_volumes:
      return CU(cuMemcpy3DBatchAsync)(1, &volume, 0, stream);
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

TEST_CASE("a copy with attributes arrives in every mode, whatever the order of its source") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(std::string(progress));
    const SimFixture fixture(with(progress));
    for (const Form form : kForms) {
      for (const auto order : kOrders) {
        const std::vector<unsigned char> host = bytes_of(64, 3);
        const CUdeviceptr device = make_memory(64);
        const CUstream stream = make_stream();
        CHECK(copy(form, device, address_of(host.data()), 64, stream, order,
                   CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) == CUDA_SUCCESS);
        OK(CU(cuStreamSynchronize)(stream));
        CHECK(fixture.sim.peek(device, 64) == host);
      }
    }
  }
}

TEST_CASE("only a source in stream order is read after the stream's earlier work") {
  for (const Form form : kForms) {
    for (const auto order : kOrders) {
      CAPTURE(int(form));
      CAPTURE(int(order));
      int early = 0;
      int late = 0;
      for (int seed = 1; seed <= 50; ++seed) {
        SimFixture fixture(with("random") + ",seed=" + std::to_string(seed));
        const CUstream stream = make_stream();
        const CUdeviceptr source = make_memory(64);
        const CUdeviceptr target = make_memory(64);
        OK(CU(cuMemsetD8)(source, 1, 64));
        OK(CU(cuCtxSynchronize)());
        OK(CU(cuMemsetD8Async)(source, 2, 64, stream));
        OK(copy(form, target, source, 64, stream, order));
        OK(CU(cuStreamSynchronize)(stream));
        CHECK(found_race(fixture.sim) == (order != kStream));
        const std::vector<unsigned char> read = fixture.sim.peek(target, 64);
        early += read == bytes_of(64, 1) ? 1 : 0;
        late += read == bytes_of(64, 2) ? 1 : 0;
      }
      CHECK(early + late == 50);
      CHECK(late > 0);
      CHECK((early > 0) == (order != kStream));
    }
  }
}

TEST_CASE_FIXTURE(AttributedFixture, "a source that is read during the call may be reused after") {
  for (const Form form : kForms) {
    const CUstream stream = make_stream();
    const CUdeviceptr device = make_memory(64);
    std::vector<unsigned char> host = bytes_of(64, 1);
    CHECK(copy(form, device, address_of(host.data()), 64, stream, kDuringCall) == CUDA_SUCCESS);
    host.assign(64, 2);
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(sim.peek(device, 64) == bytes_of(64, 1));
    const CUdeviceptr source = make_memory(64);
    CHECK(copy(form, device, source, 64, stream, kDuringCall) == CUDA_SUCCESS);
    OK(CU(cuMemsetD8Async)(source, 9, 64, make_stream()));
    sim.run_all();
    CHECK(sim.take_findings().empty());
  }
}

TEST_CASE_FIXTURE(AttributedFixture,
                  "a copy with attributes is between the work before and after") {
  for (const Form form : kForms) {
    for (const auto order : kOrders) {
      const CUstream stream = make_stream();
      const CUdeviceptr source = make_memory(64);
      const CUdeviceptr target = make_memory(64);
      OK(CU(cuMemsetD8)(source, 5, 64));
      OK(CU(cuCtxSynchronize)());
      OK(CU(cuMemsetD8Async)(target, 1, 64, stream));
      CHECK(copy(form, target, source, 64, stream, order) == CUDA_SUCCESS);
      OK(CU(cuMemsetD8Async)(target + 32, 6, 32, stream));
      OK(CU(cuStreamSynchronize)(stream));
      CHECK(sim.peek(target, 32) == bytes_of(32, 5));
      CHECK(sim.peek(target + 32, 32) == bytes_of(32, 6));
      CHECK(sim.take_findings().empty());
    }
  }
}

TEST_CASE_FIXTURE(AttributedFixture, "rows and layers of a volume keep their lengths") {
  for (const auto order : kOrders) {
    CAPTURE(int(order));
    const CUstream stream = make_stream();
    std::vector<unsigned char> host(4 * 5 * 16);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i);
    const CUdeviceptr source = make_memory(host.size());
    OK(CU(cuMemcpyHtoD)(source, host.data(), host.size()));
    const CUdeviceptr target = make_memory(8 * 3 * 2);
    OK(CU(cuMemsetD8)(target, 0xee, 8 * 3 * 2));
    OK(CU(cuCtxSynchronize)());
    // Layers of 5 rows of 16 bytes become packed ones of 3 rows of 8 bytes.
    CUDA_MEMCPY3D_BATCH_OP volume = volume_of(target, source + 4, {8, 3, 2}, order);
    volume.src.op.ptr.rowLength = 16;
    volume.src.op.ptr.layerHeight = 5;
    CHECK(CU(cuMemcpy3DWithAttributesAsync)(&volume, 0, stream) == CUDA_SUCCESS);
    // Bytes between the rows are not read.
    OK(CU(cuMemsetD8Async)(source + 12, 0, 8, make_stream()));
    OK(CU(cuStreamSynchronize)(stream));
    sim.run_all();
    CHECK(sim.take_findings().empty());
    const std::vector<unsigned char> copied = sim.peek(target, 8 * 3 * 2);
    for (std::size_t i = 0; i < copied.size(); ++i) {
      const std::size_t layer = i / 24;
      const std::size_t row = i / 8 % 3;
      REQUIRE(copied[i] == host[4 + (layer * 5 + row) * 16 + i % 8]);
    }
  }
}

TEST_CASE_FIXTURE(AttributedFixture, "memory of each pending row must stay mapped") {
  constexpr std::size_t kGranule = std::size_t{2} << 20;
  const CUmemAllocationProp properties = properties_on(0);
  const CUmemAccessDesc access = access_for(0);
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr mapped = 0;
  OK(CU(cuMemAddressReserve)(&mapped, 2 * kGranule, 0, 0, 0));
  for (int granule = 0; granule < 2; ++granule) {
    OK(CU(cuMemCreate)(&physical, kGranule, &properties, 0));
    OK(CU(cuMemMap)(mapped + granule * kGranule, kGranule, 0, physical, 0));
  }
  OK(CU(cuMemSetAccess)(mapped, 2 * kGranule, &access, 1));
  CUDA_MEMCPY3D_BATCH_OP volume = volume_of(make_memory(128), mapped, {64, 2, 1}, kAny);
  volume.src.op.ptr.rowLength = kGranule;
  OK(CU(cuMemcpy3DWithAttributesAsync)(&volume, 0, make_stream()));
  OK(CU(cuMemUnmap)(mapped + kGranule, kGranule));  // the second row is not read yet
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(AttributedFixture, "the volumes of one batch are unordered") {
  const CUdeviceptr target = make_memory(64);
  CUDA_MEMCPY3D_BATCH_OP volumes[] = {volume_of(target, make_memory(64), {16, 2, 1}),
                                      volume_of(target + 16, make_memory(64), {16, 2, 1})};
  OK(CU(cuMemcpy3DBatchAsync)(2, volumes, 0, make_stream()));
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(AttributedFixture, "only invalid attributes are refused") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  for (const Form form : kForms) {
    const auto refused = [&](CUmemcpySrcAccessOrder order, unsigned flags, std::size_t bytes) {
      return copy(form, device, device + 32, bytes, stream, order, flags) ==
             CUDA_ERROR_INVALID_VALUE;
    };
    CHECK(refused(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID, 0, 32));
    CHECK(refused(CU_MEMCPY_SRC_ACCESS_ORDER_MAX, 0, 32));
    CHECK(refused(kStream, 2, 32));
    CHECK(refused(kStream, 0, 0));
    CHECK(refused(kStream, 0, 33));
    CHECK(refused(kAny, 0, SIZE_MAX));
    CHECK_FALSE(refused(kAny, 0, 32));
    CHECK(copy(form, device, device + 32, 32, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(copy(form, device, device + 32, 32, CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_VALUE);
    CHECK(copy(form, device, device + 32, 32, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CHECK(copy(form, device, device + 32, 32, reinterpret_cast<CUstream>(99)) ==
          CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(CU(cuMemcpyWithAttributesAsync)(device, device + 32, 32, nullptr, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DWithAttributesAsync)(nullptr, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DBatchAsync)(1, nullptr, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D_BATCH_OP volume = volume_of(device, device + 32, {32, 1, 1});
  CHECK(CU(cuMemcpy3DBatchAsync)(0, &volume, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DBatchAsync)(1, &volume, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DWithAttributesAsync)(&volume, 1, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(AttributedFixture,
                  "an invalid volume is refused, and nothing of its batch runs") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(256);
  const auto submit = [&](const auto& change) {
    const CUDA_MEMCPY3D_BATCH_OP good = volume_of(device, device + 128, {8, 2, 2});
    CUDA_MEMCPY3D_BATCH_OP volumes[] = {good, good};
    change(volumes[1]);
    return CU(cuMemcpy3DBatchAsync)(2, volumes, 0, stream);
  };
  using Volume = CUDA_MEMCPY3D_BATCH_OP;
  CHECK(submit([](Volume& copy) { copy.extent.width = 0; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.extent.height = 0; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.extent.depth = 0; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.extent.depth = SIZE_MAX; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.src.op.ptr.rowLength = 7; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.dst.op.ptr.layerHeight = 1; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.dst.op.ptr.rowLength = SIZE_MAX; }) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.src.op.ptr.ptr = 8; }) == CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.src.type = CU_MEMCPY_OPERAND_TYPE_MAX; }) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(submit([](Volume& copy) { copy.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY; }) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(sim.pending_operations(stream) == 0);
  CHECK(submit([](Volume&) {}) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(AttributedFixture, "a captured stream rejects attributes, and stays captured") {
  const CUdeviceptr device = make_memory(64);
  for (const Form form : kForms) {
    const CUstream stream = make_stream();
    begin_capture(stream);
    CHECK(copy(form, device, device + 32, 32, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(nodes_of(end_capture(stream)).empty());
  }
}

TEST_CASE("copies with attributes exist from CUDA 13.2 on") {
  for (const int version : {13000, 13010, 13020}) {
    const sim::Simulator sim("driver_version=" + std::to_string(version));
    for (const char* name : {"cuMemcpyWithAttributesAsync", "cuMemcpyWithAttributesAsync_ptsz",
                             "cuMemcpy3DWithAttributesAsync", "cuMemcpy3DWithAttributesAsync_ptsz"})
      CHECK((sim::resolve(name) != nullptr) == (version >= 13020));
    CHECK(sim::resolve("cuMemcpy3DBatchAsync_v2") != nullptr);
  }
}

}  // namespace attributed_copy_test
