// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "sim/per_thread_functions.hpp"
#include "sim/sim_fixture.hpp"

namespace stream_query_test {

using namespace berth;
using namespace berth::test;

namespace {

CUstream stream_with(unsigned flags, int priority) {
  CUstream stream = nullptr;
  OK(CU(cuStreamCreateWithPriority)(&stream, flags, priority));
  return stream;
}

unsigned long long id_of(CUstream stream) {
  unsigned long long id = 0;
  OK(CU(cuStreamGetId)(stream, &id));
  return id;
}

CUcontext context_of(CUstream stream) {
  CUcontext context = nullptr;
  OK(CU(cuStreamGetCtx)(stream, &context));
  return context;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "a stream without a priority has the lowest") {
  CUstream stream = nullptr;
  int priority = 9;
  unsigned flags = 9;
  CHECK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(CU(cuStreamGetPriority)(stream, &priority) == CUDA_SUCCESS);
  CHECK(priority == 0);
  CHECK(CU(cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS);
  CHECK(flags == CU_STREAM_NON_BLOCKING);
  CHECK(CU(cuStreamDestroy)(stream) == CUDA_SUCCESS);
  CHECK(CU(cuStreamCreate)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamCreate)(&stream, 2) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "the flags and clamped priority of a stream can be queried") {
  int priority = 9;
  unsigned flags = 9;
  for (const auto& [asked, given] : {std::pair{-2, -2}, {-100, -5}, {100, 0}}) {
    CHECK(CU(cuStreamGetPriority)(stream_with(0, asked), &priority) == CUDA_SUCCESS);
    CHECK(priority == given);
  }
  CHECK(CU(cuStreamGetFlags)(stream_with(CU_STREAM_DEFAULT, 0), &flags) == CUDA_SUCCESS);
  CHECK(flags == CU_STREAM_DEFAULT);
  for (const CUstream own : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    flags = 9;
    CHECK(CU(cuStreamGetFlags)(own, &flags) == CUDA_SUCCESS);
    CHECK(flags == CU_STREAM_DEFAULT);
    CHECK(CU(cuStreamGetPriority)(own, &priority) == CUDA_SUCCESS);
    CHECK(priority == 0);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "stream IDs are unique and never reused") {
  const CUstream first = make_stream();
  const unsigned long long id = id_of(first);
  CHECK(id != id_of(make_stream()));
  CHECK(id == id_of(first));
  CHECK(id_of(nullptr) == id_of(CU_STREAM_LEGACY));
  CHECK(id_of(CU_STREAM_PER_THREAD) != id_of(CU_STREAM_LEGACY));
  unsigned long long own = 0;
  CHECK(CU(cuStreamGetId_ptsz)(nullptr, &own) == CUDA_SUCCESS);
  CHECK(own == id_of(CU_STREAM_PER_THREAD));
  OK(CU(cuStreamDestroy)(first));
  CHECK(id != id_of(make_stream()));
}

TEST_CASE_FIXTURE(EagerFixture, "the context and device of a stream can be queried anywhere") {
  const CUstream stream = make_stream();
  const CUcontext other = retain(1);
  OK(CU(cuCtxSetCurrent)(other));
  CHECK(context_of(stream) == context);
  CHECK(context_of(make_stream()) == other);
  CHECK(context_of(nullptr) == other);
  CUdevice device = -1;
  CHECK(CU(cuStreamGetDevice)(stream, &device) == CUDA_SUCCESS);
  CHECK(device == 0);
  CHECK(CU(cuStreamGetDevice)(nullptr, &device) == CUDA_SUCCESS);
  CHECK(device == 1);
}

TEST_CASE_FIXTURE(EagerFixture, "without a current context only default streams are refused") {
  const CUstream stream = make_stream();
  OK(CU(cuCtxSetCurrent)(nullptr));
  CUcontext found = nullptr;
  unsigned long long id = 0;
  CHECK(context_of(stream) == context);
  CHECK(CU(cuStreamGetId)(stream, &id) == CUDA_SUCCESS);
  for (const CUstream own : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CHECK(CU(cuStreamGetCtx)(own, &found) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(CU(cuStreamGetId)(own, &id) == CUDA_ERROR_INVALID_CONTEXT);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "queries of a stream refuse invalid arguments") {
  const CUstream gone = make_stream();
  OK(CU(cuStreamDestroy)(gone));
  const CUstream stream = make_stream();
  for (const CUstream wrong : {gone, reinterpret_cast<CUstream>(99)}) {
    unsigned flags = 0;
    int number = 0;
    unsigned long long id = 0;
    CUcontext found = nullptr;
    CHECK(CU(cuStreamGetFlags)(wrong, &flags) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamGetPriority)(wrong, &number) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamGetDevice)(wrong, &number) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamGetId)(wrong, &id) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamGetCtx)(wrong, &found) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(CU(cuStreamGetFlags)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetPriority)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetDevice)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetId)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetCtx)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace stream_query_test
