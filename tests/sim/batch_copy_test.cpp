// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/graph_fixture.hpp"
#include "sim/per_thread_functions.hpp"
#include "sim/work/cost_model.hpp"

namespace batch_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr auto kStream = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
constexpr auto kDuringCall = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
constexpr auto kAny = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;

CUmemcpyAttributes attributes_of(CUmemcpySrcAccessOrder order, unsigned flags = 0) {
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  attributes.flags = flags;
  return attributes;
}

struct Batch {
  void add(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    destinations.push_back(to);
    sources.push_back(from);
    sizes.push_back(bytes);
  }
  CUresult submit(CUstream stream) {
    return CU(cuMemcpyBatchAsync)(destinations.data(), sources.data(), sizes.data(), sizes.size(),
                                  attributes.data(), firsts.data(), attributes.size(), stream);
  }

  std::vector<CUdeviceptr> destinations;
  std::vector<CUdeviceptr> sources;
  std::vector<std::size_t> sizes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<std::size_t> firsts;
};

Batch batch_with(CUmemcpySrcAccessOrder order) {
  Batch batch;
  batch.attributes = {attributes_of(order)};
  batch.firsts = {0};
  return batch;
}

/// A batch of one copy.
CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream,
              CUmemcpySrcAccessOrder order = kStream) {
  Batch batch = batch_with(order);
  batch.add(to, from, bytes);
  return batch.submit(stream);
}

}  // namespace

TEST_CASE("every copy of a batch arrives, in every mode and with every order of its sources") {
  for (const std::string progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(progress);
    const SimFixture fixture("memory=1GiB,progress=" + progress);
    const CUdeviceptr device = make_memory(64);
    unsigned char* pinned = make_pinned(16);
    std::memset(pinned, 2, 16);
    std::vector<unsigned char> host = bytes_of(16, 3);
    const CUdeviceptr source = make_memory(16);
    OK(CU(cuMemsetD8)(source, 4, 16));
    OK(CU(cuCtxSynchronize)());
    Batch batch;
    batch.attributes = {attributes_of(kStream), attributes_of(kDuringCall), attributes_of(kAny)};
    batch.firsts = {0, 1, 2};
    batch.add(device, address_of(pinned), 16);
    batch.add(device + 16, address_of(host.data()), 16);
    batch.add(device + 32, source, 16);
    batch.add(device + 48, address_of(pinned), 16);
    CHECK(batch.submit(make_stream()) == CUDA_SUCCESS);
    OK(CU(cuCtxSynchronize)());
    std::vector<unsigned char> back(64);
    OK(CU(cuMemcpyDtoH)(back.data(), device, 64));
    for (std::size_t i = 0; i < 64; ++i) {
      const unsigned char expected[] = {2, 3, 4, 2};
      REQUIRE(back[i] == expected[i / 16]);
    }
  }
}

TEST_CASE_FIXTURE(ManualFixture, "the batch as a whole is in stream order") {
  const CUstream stream = make_stream();
  const CUdeviceptr first = make_memory(64);
  const CUdeviceptr second = make_memory(64);
  OK(CU(cuMemsetD8Async)(first, 1, 64, stream));
  Batch batch = batch_with(kStream);
  batch.add(second, first, 32);
  batch.add(second + 32, first + 32, 32);
  CHECK(batch.submit(stream) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(first, 2, 64, stream));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(second, 64) == bytes_of(64, 1));
  CHECK(sim.peek(first, 64) == bytes_of(64, 2));
  CHECK(sim.take_findings().empty());
  CHECK(sim.live().streams == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "overlapping copies of one batch race") {
  const CUdeviceptr device = make_memory(64);
  Batch overlapping = batch_with(kStream);
  overlapping.add(device, make_memory(64), 40);
  overlapping.add(device + 32, make_memory(64), 32);
  OK(overlapping.submit(make_stream()));
  sim.run_all();
  CHECK(found_race(sim));
  Batch chained = batch_with(kStream);
  chained.add(make_memory(64), device, 64);
  chained.add(device, make_memory(64), 64);
  OK(CU(cuCtxSynchronize)());
  OK(chained.submit(make_stream()));
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE("copies of one batch run in different orders") {
  // The first of two copies to the same place wins with one seed, the second with another.
  std::vector<unsigned char> winners;
  for (int seed = 1; seed <= 20; ++seed) {
    SimFixture fixture("memory=1GiB,progress=random,seed=" + std::to_string(seed));
    const CUdeviceptr device = make_memory(16);
    const CUdeviceptr sources = make_memory(32);
    OK(CU(cuMemsetD8)(sources, 1, 16));
    OK(CU(cuMemsetD8)(sources + 16, 2, 16));
    OK(CU(cuCtxSynchronize)());
    Batch batch = batch_with(kStream);
    batch.add(device, sources, 16);
    batch.add(device, sources + 16, 16);
    OK(batch.submit(make_stream()));
    OK(CU(cuCtxSynchronize)());
    winners.push_back(fixture.sim.peek(device, 1)[0]);
    CHECK(found_race(fixture.sim));
  }
  CHECK(std::count(winners.begin(), winners.end(), 1) > 0);
  CHECK(std::count(winners.begin(), winners.end(), 2) > 0);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a source in stream order is read when the copy runs, pageable or not") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host = bytes_of(64, 1);
  CHECK(copy(device, address_of(host.data()), 64, stream) == CUDA_SUCCESS);
  host.assign(64, 2);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(device, 64) == bytes_of(64, 2));
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a source read during the call may be reused when the call returns") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host = bytes_of(64, 1);
  CHECK(copy(device, address_of(host.data()), 64, stream, kDuringCall) == CUDA_SUCCESS);
  host.assign(64, 2);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(device, 64) == bytes_of(64, 1));
  // Also for whoever writes to it on the device.
  const CUdeviceptr source = make_memory(64);
  CHECK(copy(device, source, 64, stream, kDuringCall) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(source, 9, 64, make_stream()));
  sim.run_all();
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(ManualFixture, "an unordered source races with earlier work of the stream") {
  for (const auto order : {kDuringCall, kAny}) {
    const CUstream stream = make_stream();
    const CUdeviceptr source = make_memory(64);
    OK(CU(cuMemsetD8Async)(source, 9, 64, stream));
    CHECK(copy(make_memory(64), source, 64, stream, order) == CUDA_SUCCESS);
    sim.run_all();
    CHECK(found_race(sim));
    OK(CU(cuStreamSynchronize)(stream));
    // Later work of the stream comes after the copy, and so after its read.
    CHECK(copy(make_memory(64), source, 64, stream, order) == CUDA_SUCCESS);
    OK(CU(cuMemsetD8Async)(source, 9, 64, stream));
    sim.run_all();
    CHECK(sim.take_findings().empty());
  }
}

TEST_CASE("an unordered source is read before or after earlier work of the stream") {
  for (const auto order : {kStream, kDuringCall, kAny}) {
    CAPTURE(int(order));
    int early = 0;
    int late = 0;
    for (int seed = 1; seed <= 50; ++seed) {
      SimFixture fixture("memory=64MiB,progress=random,seed=" + std::to_string(seed));
      const CUstream stream = make_stream();
      const CUdeviceptr source = make_memory(64);
      const CUdeviceptr target = make_memory(64);
      OK(CU(cuMemsetD8)(source, 1, 64));
      OK(CU(cuCtxSynchronize)());
      OK(CU(cuMemsetD8Async)(source, 2, 64, stream));
      OK(copy(target, source, 64, stream, order));
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

TEST_CASE_FIXTURE(ManualFixture, "the target is written in stream order, whatever the source's") {
  for (const auto order : {kStream, kDuringCall, kAny}) {
    const CUstream stream = make_stream();
    const CUdeviceptr source = make_memory(64);
    const CUdeviceptr device = make_memory(64);
    OK(CU(cuMemsetD8)(source, 5, 64));
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuMemsetD8Async)(device, 1, 64, stream));
    CHECK(copy(device, source, 64, stream, order) == CUDA_SUCCESS);
    OK(CU(cuMemsetD8Async)(device + 32, 6, 32, stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(sim.peek(device, 32) == bytes_of(32, 5));
    CHECK(sim.peek(device + 32, 32) == bytes_of(32, 6));
    CHECK(sim.take_findings().empty());
  }
}

TEST_CASE_FIXTURE(ManualFixture, "the host waits for copies to its pageable memory") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  std::vector<unsigned char> host(64);
  OK(CU(cuMemsetD8Async)(device, 7, 64, stream));
  CHECK(copy(address_of(host.data()), device, 64, stream) == CUDA_SUCCESS);
  CHECK(host == bytes_of(64, 7));
}

TEST_CASE_FIXTURE(ManualFixture,
                  "the legacy stream refuses a batch, and the per-thread stream accepts it") {
  const CUdeviceptr device = make_memory(64);
  CHECK(copy(device, device + 32, 32, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(device, device + 32, 32, CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(device, device + 32, 32, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  CHECK(copy(device, device + 32, 32, reinterpret_cast<CUstream>(99)) == CUDA_ERROR_INVALID_HANDLE);
  std::size_t bytes = 32;
  std::size_t first = 0;
  CUdeviceptr to = device;
  CUdeviceptr from = device + 32;
  CUmemcpyAttributes attributes = attributes_of(kStream);
  CHECK(CU(cuMemcpyBatchAsync_v2_ptsz)(&to, &from, &bytes, 1, &attributes, &first, 1, nullptr) ==
        CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "the attributes must cover every copy, from the first on") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  const CUdeviceptr source = make_memory(64);
  const auto with = [&](std::vector<CUmemcpyAttributes> attributes,
                        std::vector<std::size_t> firsts) {
    Batch batch;
    for (std::size_t i = 0; i < 3; ++i) batch.add(device + 16 * i, source + 16 * i, 16);
    batch.attributes = std::move(attributes);
    batch.firsts = std::move(firsts);
    return batch.submit(stream);
  };
  const CUmemcpyAttributes good =
      attributes_of(kStream, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
  CHECK(with({good}, {0}) == CUDA_SUCCESS);
  CHECK(with({good, good, good}, {0, 1, 2}) == CUDA_SUCCESS);
  CHECK(with({good}, {1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({good, good}, {0, 0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({good, good, good}, {0, 2, 1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({good, good}, {0, 3}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({good, good, good, good}, {0, 1, 2, 3}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({}, {}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({attributes_of(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID)}, {0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({attributes_of(CU_MEMCPY_SRC_ACCESS_ORDER_MAX)}, {0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({attributes_of(kStream, 2)}, {0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(with({good, attributes_of(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID)}, {0, 2}) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "location hints are ignored for memory with a known location") {
  Batch batch = batch_with(kStream);
  batch.attributes[0].srcLocHint = {static_cast<CUmemLocationType>(99), -5};
  batch.attributes[0].dstLocHint = {CU_MEM_LOCATION_TYPE_HOST, 0};
  batch.add(make_memory(16), make_memory(16), 16);
  CHECK(batch.submit(make_stream()) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a batch with one bad copy does nothing, and nothing crashes") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  const CUdeviceptr source = make_memory(64);
  struct Bad {
    CUdeviceptr to;
    CUdeviceptr from;
    std::size_t bytes;
  };
  for (const Bad& bad : {Bad{0, source, 16}, Bad{device, 8, 16}, Bad{device, source, 65},
                         Bad{device, source, 0}, Bad{device, source, SIZE_MAX}}) {
    for (const auto order : {kStream, kDuringCall, kAny}) {
      Batch batch = batch_with(order);
      batch.add(device, source, 16);
      batch.add(bad.to, bad.from, bad.bytes);
      CHECK(batch.submit(stream) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  CHECK(sim.pending_operations(stream) == 0);
  Batch batch = batch_with(kStream);
  CHECK(batch.submit(stream) == CUDA_ERROR_INVALID_VALUE);  // of no copies
  batch.add(device, source, 16);
  CHECK(CU(cuMemcpyBatchAsync)(nullptr, batch.sources.data(), batch.sizes.data(), 1,
                               batch.attributes.data(), batch.firsts.data(), 1,
                               stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyBatchAsync)(batch.destinations.data(), nullptr, batch.sizes.data(), 1,
                               batch.attributes.data(), batch.firsts.data(), 1,
                               stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyBatchAsync)(batch.destinations.data(), batch.sources.data(), nullptr, 1,
                               batch.attributes.data(), batch.firsts.data(), 1,
                               stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyBatchAsync)(batch.destinations.data(), batch.sources.data(), batch.sizes.data(),
                               1, nullptr, batch.firsts.data(), 1,
                               stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyBatchAsync)(batch.destinations.data(), batch.sources.data(), batch.sizes.data(),
                               1, batch.attributes.data(), nullptr, 1,
                               stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "a captured stream rejects a batch, and the capture stays valid") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  begin_capture(stream);
  CHECK(copy(device, device + 32, 32, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(nodes_of(end_capture(stream)).empty());
}

TEST_CASE_FIXTURE(ManualFixture, "a batch faults if its memory is freed before it runs") {
  const CUdeviceptr here = make_memory(64);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUstream stream = make_stream();
  OK(copy(make_memory(64), here, 64, stream, kAny));
  const CUcontext other = context;
  CUcontext own = nullptr;
  OK(CU(cuCtxGetCurrent)(&own));
  OK(CU(cuCtxSetCurrent)(other));
  OK(CU(cuMemFree)(here));
  CHECK(found_race(sim));  // nothing has waited for the batch
  OK(CU(cuCtxSetCurrent)(own));
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("in virtual time a batch is one call, and its copies share the engines") {
  SimFixture fixture("memory=1GiB,progress=timed");
  constexpr std::size_t kBytes = 16_MiB;
  unsigned char* pinned = make_pinned(2 * kBytes);
  const CUdeviceptr device = make_memory(2 * kBytes);
  const CUstream stream = make_stream();
  Batch batch = batch_with(kAny);
  batch.add(device, address_of(pinned), kBytes);
  batch.add(device + kBytes, address_of(pinned + kBytes), kBytes);
  const std::uint64_t before = fixture.sim.now_ns();
  OK(batch.submit(stream));
  CHECK(fixture.sim.now_ns() - before == sim::call_ns(sim::Function::k_cuMemcpyBatchAsync));
  OK(CU(cuStreamSynchronize)(stream));
  const std::uint64_t copies = sim::transfer_ns(sim::Engine::host_to_device, kBytes) +
                               sim::further_transfer_ns(sim::Engine::host_to_device, kBytes);
  CHECK(fixture.sim.now_ns() - before >= copies);
  CHECK(fixture.sim.now_ns() - before < copies + 10'000);
}

}  // namespace batch_copy_test
