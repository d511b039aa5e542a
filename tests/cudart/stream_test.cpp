// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "cudart/cudart_fixture.hpp"

extern "C" {
// As a program compiled with --default-stream per-thread calls them.
cudaError_t cudaMemcpyAsync_ptsz(void* destination, const void* source, std::size_t bytes,
                                 cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy_ptds(void* destination, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync_ptsz(void* pointer, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream);
}

namespace cudart_stream_test {

using namespace berth::test;

TEST_CASE_FIXTURE(ManualRuntime, "a stream runs its work in order, and others behind events") {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const cudaEvent_t event = make_event();
  unsigned char* const memory = make_memory(4096);
  unsigned char* const host = make_pinned(4096);
  OK(cudaMemsetAsync(memory, 3, 4096, first));
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  OK(cudaMemcpyAsync(host, memory, 4096, cudaMemcpyDeviceToHost, second));
  CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
  OK(cudaStreamSynchronize(second));
  OK(cudaEventQuery(event));
  CHECK(host[4095] == 3);
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(ManualRuntime, "a missing wait is reported") {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  unsigned char* const memory = make_memory(4096);
  OK(cudaMemsetAsync(memory, 3, 4096, first));
  OK(cudaMemcpyAsync(make_pinned(4096), memory, 4096, cudaMemcpyDeviceToHost, second));
  OK(cudaDeviceSynchronize());
  CHECK(sim.take_findings().size() == 1);
}

TEST_CASE_FIXTURE(ManualRuntime, "blocking streams follow the legacy stream, others do not") {
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  const cudaStream_t apart = make_stream(cudaStreamNonBlocking);
  OK(cudaMemsetAsync(make_memory(64), 1, 64, blocking));
  OK(cudaMemsetAsync(make_memory(64), 1, 64, apart));
  OK(cudaMemsetAsync(make_memory(64), 1, 64, nullptr));
  OK(cudaStreamSynchronize(cudaStreamLegacy));
  CHECK(cudaStreamQuery(blocking) == cudaSuccess);
  CHECK(cudaStreamQuery(apart) == cudaErrorNotReady);
  OK(cudaDeviceSynchronize());
}

TEST_CASE_FIXTURE(ManualRuntime,
                  "the null stream of the per-thread forms is the per-thread stream") {
  OK(cudaMemsetAsync_ptsz(make_memory(64), 1, 64, nullptr));
  CHECK(cudaStreamQuery_ptsz(nullptr) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaStreamQuery_ptsz(nullptr); }).join();
  CHECK(elsewhere == cudaSuccess);
  const cudaEvent_t event = make_event();
  OK(cudaEventRecord_ptsz(event, nullptr));
  OK(cudaEventSynchronize(event));
  CHECK(cudaStreamQuery_ptsz(nullptr) == cudaSuccess);
  // A call of the second form leaves the first form as it was.
  const cudaStream_t apart = make_stream();
  OK(cudaMemsetAsync(make_memory(64), 1, 64, nullptr));
  OK(cudaStreamSynchronize_ptsz(nullptr));
  OK(cudaStreamSynchronize(apart));
  OK(cudaDeviceSynchronize());
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "synchronous copies of the per-thread form do not wait for the legacy stream") {
  const Bytes source = counted(1000);
  unsigned char* const memory = make_memory(1000);
  OK(cudaMemcpy_ptds(memory, source.data(), 1000, cudaMemcpyHostToDevice));
  CHECK(read_back(memory, 1000) == source);
  OK(cudaMemcpyAsync_ptsz(memory, source.data(), 1, cudaMemcpyHostToDevice, nullptr));
  CHECK(sim.calls("cuMemcpyHtoD") == 1);
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "a stream has the flags, the priority and the device it was given") {
  int least = -1;
  int greatest = -1;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(least == 0);
  CHECK(greatest < least);
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  unsigned flags = 0;
  int priority = 0;
  int device = -1;
  unsigned long long id = 0;
  OK(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
  OK(cudaStreamGetDevice(stream, &device));
  CHECK(device == 0);
  OK(cudaStreamGetId(stream, &id));
  CHECK(id != 0);
  OK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamCreateWithFlags(&stream, 8) == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(EagerRuntime, "host functions and callbacks run in stream order") {
  const cudaStream_t stream = make_stream();
  std::atomic<int> state = 0;
  OK(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<std::atomic<int>*>(data) = 1; }, &state));
  OK(cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t status, void* data) {
        auto& value = *static_cast<std::atomic<int>*>(data);
        if (status == cudaSuccess && value == 1) value = 2;
      },
      &state, 0));
  OK(cudaStreamSynchronize(stream));
  CHECK(state == 2);
}

TEST_CASE_FIXTURE(EagerRuntime, "a host function that calls the runtime is refused") {
  const cudaStream_t stream = make_stream();
  cudaError_t result = cudaSuccess;
  OK(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        void* pointer = nullptr;
        *static_cast<cudaError_t*>(data) = cudaMalloc(&pointer, 100);
      },
      &result));
  OK(cudaStreamSynchronize(stream));
  CHECK(result == cudaErrorNotPermitted);
}

TEST_CASE_FIXTURE(EagerRuntime, "events measure time unless created without timing") {
  const cudaStream_t stream = make_stream();
  cudaEvent_t start = nullptr;
  OK(cudaEventCreate(&start));
  const cudaEvent_t end = make_event(cudaEventDefault);
  const cudaEvent_t untimed = make_event(cudaEventDisableTiming);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  OK(cudaEventRecord(start, stream));
  OK(cudaEventRecord(end, stream));
  OK(cudaEventRecord(untimed, stream));
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  OK(cudaEventDestroy(untimed));
  CHECK(cudaEventDestroy(untimed) == cudaErrorInvalidResourceHandle);
}

}  // namespace cudart_stream_test
