// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Management".
#include <thread>
#include <utility>

#include "contract/contract_driver.hpp"

namespace stream_query_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct StreamQueryFixture : ContractFixture {
  ~StreamQueryFixture() {
    for (const CUstream stream : streams) driver.try_stream_destroy(stream);
  }
  CUstream keep(CUstream stream) {
    streams.push_back(stream);
    return stream;
  }

  decltype(&::cuStreamCreate) create = CONTRACT_FUNCTION(cuStreamCreate, 2000);
  decltype(&::cuStreamGetFlags) get_flags = CONTRACT_FUNCTION(cuStreamGetFlags, 5050);
  decltype(&::cuStreamGetPriority) get_priority = CONTRACT_FUNCTION(cuStreamGetPriority, 5050);
  decltype(&::cuStreamGetId) get_id = CONTRACT_FUNCTION(cuStreamGetId, 12000);
  decltype(&::cuStreamGetCtx) get_context = CONTRACT_FUNCTION(cuStreamGetCtx, 9020);
  decltype(&::cuStreamGetDevice) get_device = CONTRACT_FUNCTION(cuStreamGetDevice, 12080);
  decltype(&::cuStreamAddCallback) add_callback = CONTRACT_FUNCTION(cuStreamAddCallback, 5000);

  std::vector<CUstream> streams;
};

}  // namespace

// cuStreamGetFlags: "a logical 'OR' of all flags that were used while creating this stream".
TEST_CASE_FIXTURE(StreamQueryFixture, "the creation flags of a stream can be queried") {
  for (const unsigned asked : {unsigned{CU_STREAM_DEFAULT}, unsigned{CU_STREAM_NON_BLOCKING}}) {
    CUstream made = nullptr;
    unsigned flags = 99;
    CHECK(create(&made, asked) == CUDA_SUCCESS);
    CHECK(get_flags(keep(made), &flags) == CUDA_SUCCESS);
    CHECK(flags == asked);
  }
}

// cuStreamGetPriority: "if the stream was created with a priority outside the numerical range ...
// this function returns the clamped priority"; cuStreamCreate: the default priority is 0.
TEST_CASE_FIXTURE(StreamQueryFixture, "the priority of a stream is clamped to the range") {
  int least = 0;
  int greatest = 0;
  driver.ctx_get_stream_priority_range(&least, &greatest);
  int priority = 99;
  for (const auto& [asked, given] : {std::pair{greatest - 1, greatest}, {least + 1, least}}) {
    CUstream made = nullptr;
    driver.stream_create_with_priority(&made, unsigned{CU_STREAM_NON_BLOCKING}, asked);
    CHECK(get_priority(keep(made), &priority) == CUDA_SUCCESS);
    CHECK(priority == given);
  }
  CUstream made = nullptr;
  CHECK(create(&made, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  CHECK(get_priority(keep(made), &priority) == CUDA_SUCCESS);
  CHECK(priority == 0);
}

// cuStreamGetId: "The Id is unique for the life of the program."
TEST_CASE_FIXTURE(StreamQueryFixture, "the ID of a stream is not used again") {
  if (get_id == nullptr) {
    MESSAGE("skipped: needs the stream ids of CUDA 12");
    return;
  }
  unsigned long long first = 0;
  unsigned long long second = 0;
  const CUstream gone = make_stream();
  CHECK(get_id(gone, &first) == CUDA_SUCCESS);
  driver.stream_destroy(gone);
  CHECK(get_id(keep(make_stream()), &second) == CUDA_SUCCESS);
  CHECK(first != second);
  CHECK(get_id(nullptr, &first) == CUDA_SUCCESS);
  CHECK(get_id(CU_STREAM_LEGACY, &second) == CUDA_SUCCESS);
  CHECK(first == second);
}

// cuStreamGetCtx: "the context that was active in the calling thread when the stream was created";
// for special handles, "the context current to the calling thread. If no context is current ...
// CUDA_ERROR_INVALID_CONTEXT".
TEST_CASE_FIXTURE(StreamQueryFixture, "the context of a stream can be queried") {
  const CUstream stream = keep(make_stream());
  CUcontext found = nullptr;
  CHECK(get_context(stream, &found) == CUDA_SUCCESS);
  CHECK(found == context);
  CHECK(get_context(nullptr, &found) == CUDA_SUCCESS);
  CHECK(found == context);
  std::thread([&] {
    CUcontext none = nullptr;
    CHECK(get_context(CU_STREAM_LEGACY, &none) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

// cuStreamGetDevice: "Returns in *device the device handle of the stream".
TEST_CASE_FIXTURE(StreamQueryFixture, "the device of a stream can be queried") {
  if (get_device == nullptr) {
    MESSAGE("skipped: needs CUDA 12.8");
    return;
  }
  CUdevice device = -1;
  CHECK(get_device(keep(make_stream()), &device) == CUDA_SUCCESS);
  CHECK(device == 0);
}

// cuStreamAddCallback: "the callback will be executed exactly once. The callback will block later
// work in the stream until it is finished"; "Attempting to use a CUDA API will result in
// CUDA_ERROR_NOT_PERMITTED."
TEST_CASE_FIXTURE(StreamQueryFixture, "a callback runs once, before what follows it") {
  struct Told {
    const Driver* driver;
    unsigned char* pinned;
    int times = 0;
    CUresult status = CUDA_ERROR_UNKNOWN;
    unsigned char seen = 0;
    CUresult call_inside = CUDA_SUCCESS;
  };
  const CUstream stream = keep(make_stream());
  unsigned char* pinned = make_pinned(64, 1);
  Told told{&driver, pinned};
  const auto note = [](CUstream, CUresult status, void* data) {
    auto& noted = *static_cast<Told*>(data);
    ++noted.times;
    noted.status = status;
    noted.seen = noted.pinned[0];
    int count = 0;
    noted.call_inside = noted.driver->try_device_get_count(&count);
  };
  fill(address_of(pinned), 2, 64, stream);
  CHECK(add_callback(stream, note, &told, 0) == CUDA_SUCCESS);
  fill(address_of(pinned), 3, 64, stream);
  driver.stream_synchronize(stream);
  CHECK(told.times == 1);
  CHECK(told.status == CUDA_SUCCESS);
  CHECK(told.seen == 2);
  CHECK(told.call_inside == CUDA_ERROR_NOT_PERMITTED);
  CHECK(pinned[0] == 3);
  CHECK(add_callback(stream, note, &told, 1) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_free_host(static_cast<void*>(pinned));
}

}  // namespace stream_query_contract_test
