// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Management"; CUDA Programming Guide, "Creating a Graph Using
// Stream Capture".
#include <thread>

#include "contract/graph_contract.hpp"

namespace capture_contract_test {

using namespace berth;
using namespace berth::test;

// cuStreamBeginCapture: operations "will not be executed, but will instead be captured into a
// graph".
TEST_CASE_FIXTURE(GraphContractFixture, "captured work does not run until its graph is launched") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  fill(memory, 1, 64, stream);
  begin(stream);
  fill(memory, 2, 64, stream);
  const CUgraphExec exec = make_executable(end(stream));
  CHECK(read(memory, 64, stream) == bytes_of(64, 1));
  driver.graph_launch(exec, stream);
  CHECK(read(memory, 64, stream) == bytes_of(64, 2));
  driver.graph_exec_destroy(exec);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuStreamIsCapturing: CU_STREAM_CAPTURE_STATUS_NONE, _ACTIVE; cuStreamGetCaptureInfo: the id "is
// unique over the lifetime of the process".
TEST_CASE_FIXTURE(GraphContractFixture, "the capture status and graph of a stream can be queried") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  cuuint64_t ids[2] = {};
  for (cuuint64_t& id : ids) {
    CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    begin(stream);
    CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    fill(memory, 1, 64, stream);
    CUstreamCaptureStatus status_now = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    std::size_t count = 0;
    driver.stream_get_capture_info(stream, &status_now, &id, &graph, &dependencies, &edges, &count);
    CHECK(status_now == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    REQUIRE(count == 1);
    CHECK(nodes(graph) == std::vector<CUgraphNode>{dependencies[0]});
    CHECK(end(stream) == graph);
    driver.graph_destroy(graph);
  }
  CHECK(ids[0] != ids[1]);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuStreamBeginCapture: not "if stream is CU_STREAM_LEGACY", and only "if the stream is not already
// in capture mode".
TEST_CASE_FIXTURE(GraphContractFixture, "a capture begins neither twice nor on the legacy stream") {
  if (!available) return;
  const CUstream stream = make_stream();
  for (const CUstream legacy : {CUstream{nullptr}, CU_STREAM_LEGACY})
    CHECK(driver.try_stream_begin_capture(legacy, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS);
  begin(stream);
  CHECK(driver.try_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS);
  CUgraph graph = nullptr;
  driver.try_stream_end_capture(stream, &graph);
  if (graph != nullptr) driver.graph_destroy(graph);
  CHECK(driver.try_stream_end_capture(stream, &graph) != CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured";
// cuStreamEndCapture: "If capture was invalidated [...] a NULL graph will be returned."
TEST_CASE_FIXTURE(GraphContractFixture,
                  "querying or synchronizing a captured stream invalidates the capture") {
  if (!available) return;
  const CUstream stream = make_stream();
  begin(stream);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  end_invalidated(stream);
  begin(stream);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_invalidated(stream);
  driver.stream_destroy(stream);
}

// "[...] or a captured event"; CUDA_ERROR_CAPTURED_EVENT: "not permitted on an event which was last
// recorded in a capturing stream."
TEST_CASE_FIXTURE(GraphContractFixture,
                  "querying or synchronizing a captured event invalidates the capture") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  begin(stream);
  driver.event_record(event, stream);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_CAPTURED_EVENT);
  end_invalidated(stream);
  begin(stream);
  driver.event_record(event, stream);
  CHECK(driver.try_event_synchronize(event) == CUDA_ERROR_CAPTURED_EVENT);
  end_invalidated(stream);
  driver.event_record(event, stream);
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// "[...] a broader handle which encompasses an active stream capture, such as a device or context
// handle".
TEST_CASE_FIXTURE(GraphContractFixture, "waiting for a context with a captured stream fails") {
  if (!available) return;
  const CUstream stream = make_stream();
  begin(stream);
  CHECK(driver.try_ctx_synchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end_invalidated(stream);
  CHECK(driver.try_ctx_synchronize() == CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

// "further use of any streams which are being captured [...] is invalid and will return an error,
// until stream capture is ended".
TEST_CASE_FIXTURE(GraphContractFixture, "an invalidated capture takes no more work") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  driver.try_stream_query(stream);
  CHECK(driver.try_memset_d8_async(memory, static_cast<unsigned char>(1), std::size_t{64},
                                   stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  end_invalidated(stream);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// "When a captured event is waited on by a stream, it places the stream in capture mode if it is
// not already, and the next item in the stream will have additional dependencies on the nodes in
// the captured event."
TEST_CASE_FIXTURE(GraphContractFixture, "a capture forks and joins along events") {
  if (!available) return;
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(origin);
  fill(memory, 1, 64, origin);
  order(origin, fork);
  CHECK(status(fork) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  fill(memory, 2, 32, fork);
  fill(memory + 32, 3, 32, origin);
  order(fork, origin);
  fill(memory, 4, 16, origin);
  const CUgraph graph = end(origin);
  CHECK(status(fork) == CU_STREAM_CAPTURE_STATUS_NONE);
  const std::vector<CUgraphNode> all = nodes(graph);
  CHECK(all.size() == 4);
  std::size_t edges = 0;
  driver.graph_get_edges(graph, nullptr, nullptr, nullptr, &edges);
  CHECK(edges == 4);
  const CUgraphExec exec = make_executable(graph);
  for (int launch = 0; launch < 2; ++launch) {
    fill(memory, 9, 64, fork);
    order(fork, origin);
    driver.graph_launch(exec, origin);
    const std::vector<unsigned char> content = read(memory, 64, origin);
    CHECK(content[0] == 4);
    CHECK(content[16] == 2);
    CHECK(content[32] == 3);
    order(origin, fork);
  }
  driver.graph_exec_destroy(exec);
  driver.ctx_synchronize();
  driver.mem_free(memory);
  driver.stream_destroy(origin);
  driver.stream_destroy(fork);
}

// "Failure to rejoin to the origin stream will result in failure of the overall capture operation."
TEST_CASE_FIXTURE(GraphContractFixture, "a fork that is not joined fails the capture") {
  if (!available) return;
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(origin);
  order(origin, fork);
  fill(memory, 1, 64, fork);
  CUgraph graph = nullptr;
  CHECK(driver.try_stream_end_capture(origin, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(graph == nullptr);
  CHECK(status(origin) == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(status(fork) == CU_STREAM_CAPTURE_STATUS_NONE);
  driver.mem_free(memory);
  driver.stream_destroy(origin);
  driver.stream_destroy(fork);
}

// "It is invalid to merge two separate captures by waiting on a captured event from a stream which
// is being captured and is associated with a different capture graph than the event."
TEST_CASE_FIXTURE(GraphContractFixture, "two captures cannot merge") {
  if (!available) return;
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  begin(first);
  begin(second);
  driver.event_record(event, first);
  CHECK(driver.try_stream_wait_event(second, event, 0U) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  end_invalidated(second);
  CUgraph graph = nullptr;
  driver.try_stream_end_capture(first, &graph);
  if (graph != nullptr) driver.graph_destroy(graph);
  driver.event_destroy(event);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

// "It is invalid to wait on a non-captured event from a stream which is being captured without
// specifying the cudaEventWaitExternal flag."
TEST_CASE_FIXTURE(GraphContractFixture, "a captured stream cannot wait for work outside") {
  if (!available) return;
  const CUstream captured = make_stream();
  const CUstream outside = make_stream();
  const CUevent event = make_event();
  driver.event_record(event, outside);
  begin(captured);
  CHECK(driver.try_stream_wait_event(captured, event, 0U) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  end_invalidated(captured);
  driver.event_destroy(event);
  driver.stream_destroy(captured);
  driver.stream_destroy(outside);
}

// CUDA_ERROR_CAPTURED_EVENT; cuEventRecord "will overwrite the previously captured state".
TEST_CASE_FIXTURE(GraphContractFixture,
                  "an event of a finished capture cannot be queried or waited for") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  const CUevent event = make_event();
  begin(stream);
  driver.event_record(event, stream);
  driver.graph_destroy(end(stream));
  CHECK(driver.try_event_query(event) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(driver.try_stream_wait_event(other, event, 0U) == CUDA_ERROR_CAPTURED_EVENT);
  driver.event_record(event, stream);
  CHECK(driver.try_stream_wait_event(other, event, 0U) == CUDA_SUCCESS);
  driver.event_synchronize(event);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
  driver.stream_destroy(other);
}

// "When any stream in the same context is being captured, and it was not created with
// cudaStreamNonBlocking, any attempted use of the legacy stream is invalid."
TEST_CASE_FIXTURE(GraphContractFixture, "a captured blocking stream blocks the legacy stream") {
  if (!available) return;
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  CUstreamCaptureStatus status_now = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(driver.try_stream_is_capturing(CU_STREAM_LEGACY, &status_now) ==
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(status(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(driver.try_memset_d8_async(memory, static_cast<unsigned char>(1), std::size_t{64},
                                   CU_STREAM_LEGACY) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  end_invalidated(stream);
  begin(stream);
  CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  end_invalidated(stream);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// The same: "and it was not created with cudaStreamNonBlocking".
TEST_CASE_FIXTURE(GraphContractFixture,
                  "a captured non-blocking stream does not block the legacy stream") {
  if (!available) return;
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  fill(memory, 1, 64, nullptr);
  CHECK(driver.try_stream_synchronize(nullptr) == CUDA_SUCCESS);
  driver.graph_destroy(end(stream));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// "cudaStreamEndCapture() must still be called in the same stream where cudaStreamBeginCapture()
// was called".
TEST_CASE_FIXTURE(GraphContractFixture, "a capture does not end on a stream that it forked to") {
  if (!available) return;
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  begin(origin);
  order(origin, fork);
  CUgraph graph = nullptr;
  CHECK(driver.try_stream_end_capture(fork, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  driver.try_stream_end_capture(origin, &graph);
  if (graph != nullptr) driver.graph_destroy(graph);
  CHECK(status(fork) == CU_STREAM_CAPTURE_STATUS_NONE);
  driver.stream_destroy(origin);
  driver.stream_destroy(fork);
}

// cuStreamEndCapture: "If the mode [...] was not CU_STREAM_CAPTURE_MODE_RELAXED, this call must be
// from the same thread as cuStreamBeginCapture."
TEST_CASE_FIXTURE(GraphContractFixture, "only a relaxed capture can be ended by another thread") {
  if (!available) return;
  const CUstream stream = make_stream();
  const auto end_elsewhere = [&](CUgraph& graph) {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      driver.ctx_push_current(context);
      result = driver.try_stream_end_capture(stream, &graph);
    }).join();
    return result;
  };
  CUgraph graph = nullptr;
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(end_elsewhere(graph) == CUDA_SUCCESS);
  driver.graph_destroy(graph);
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    graph = nullptr;
    begin(stream, mode);
    CHECK(end_elsewhere(graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    driver.try_stream_end_capture(stream, &graph);
    if (graph != nullptr) driver.graph_destroy(graph);
  }
  driver.stream_destroy(stream);
}

namespace {

/// What an allocation gives while this thread captures in `mode`; `elsewhere`: in a thread that has
/// put itself into `thread_mode`.
struct Allocation {
  CUresult here;
  CUresult elsewhere;
};
Allocation allocate_while_capturing(const GraphContractFixture& fixture, CUstreamCaptureMode mode,
                                    CUstreamCaptureMode thread_mode) {
  Driver& driver = fixture.driver;
  const CUstream stream = fixture.make_stream();
  Allocation result{};
  const auto allocate = [&] {
    CUdeviceptr pointer = 0;
    const CUresult allocated = driver.try_mem_alloc(&pointer, std::size_t{512});
    if (allocated == CUDA_SUCCESS) driver.mem_free(pointer);
    return allocated;
  };
  fixture.begin(stream, mode);
  std::thread([&] {
    driver.ctx_push_current(fixture.context);
    driver.thread_exchange_capture_mode(&thread_mode);
    result.elsewhere = allocate();
  }).join();
  result.here = allocate();
  const bool refused = result.here != CUDA_SUCCESS || result.elsewhere != CUDA_SUCCESS;
  if (refused)
    fixture.end_invalidated(stream);
  else
    driver.graph_destroy(fixture.end(stream));
  driver.stream_destroy(stream);
  return result;
}

}  // namespace

// cuThreadExchangeStreamCaptureMode, its three modes.
TEST_CASE_FIXTURE(GraphContractFixture,
                  "the mode of a capture determines whether allocations are forbidden") {
  if (!available) return;
  constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
  constexpr auto local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  constexpr CUresult refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  struct Rule {
    CUstreamCaptureMode capture;
    CUstreamCaptureMode thread;
    CUresult here;
    CUresult elsewhere;
  };
  for (const Rule& rule :
       {Rule{global, global, refused, refused}, Rule{global, local, refused, CUDA_SUCCESS},
        Rule{global, relaxed, refused, CUDA_SUCCESS}, Rule{local, global, refused, CUDA_SUCCESS},
        Rule{relaxed, global, CUDA_SUCCESS, CUDA_SUCCESS}}) {
    CAPTURE(rule.capture);
    CAPTURE(rule.thread);
    const Allocation result = allocate_while_capturing(*this, rule.capture, rule.thread);
    CHECK(result.elsewhere == rule.elsewhere);
    CHECK(result.here == rule.here);
  }
}

// cuThreadExchangeStreamCaptureMode: "Sets the calling thread's [...] mode to the value contained
// in *mode, and overwrites *mode with the previous mode"; CU_STREAM_CAPTURE_MODE_GLOBAL "is the
// default".
TEST_CASE_FIXTURE(GraphContractFixture,
                  "a thread in relaxed mode may allocate during its capture") {
  if (!available) return;
  const CUstream stream = make_stream();
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver.thread_exchange_capture_mode(&mode);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  const CUdeviceptr memory = make_memory(512);
  driver.thread_exchange_capture_mode(&mode);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.graph_destroy(end(stream));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// "When a stream is taken out of capture mode, the next non-captured item in the stream (if any)
// will still have a dependency on the most recent prior non-captured item".
TEST_CASE_FIXTURE(GraphContractFixture,
                  "a capture does not break the order of the work around it") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  Gate gate(driver, stream);
  fill(memory, 1, 64, stream);
  begin(stream);
  fill(memory, 2, 64, stream);
  driver.graph_destroy(end(stream));
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(read(memory, 64, stream) == bytes_of(64, 1));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

}  // namespace capture_contract_test
