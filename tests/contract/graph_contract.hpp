// SPDX-License-Identifier: Apache-2.0
// What the cases about captures and graphs begin with. Where the driver does not have the
// functions, `available` is false, and the case says that it is skipped.
#pragma once

#include <cstddef>
#include <vector>

#include "contract/contract_driver.hpp"

namespace berth::test {

struct GraphContractFixture : ContractFixture {
  GraphContractFixture() {
    available = driver.has(DriverCall::stream_get_capture_info) &&
                driver.has(DriverCall::graph_instantiate);
    if (!available) MESSAGE("skipped: needs stream capture and graphs as CUDA 12.3 has them");
  }

  void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) const {
    driver.stream_begin_capture(stream, mode);
  }
  /// The graph of a capture that broke no rule.
  [[nodiscard]] CUgraph end(CUstream stream) const {
    CUgraph graph = nullptr;
    driver.stream_end_capture(stream, &graph);
    return graph;
  }
  /// Ends a capture that broke a rule: there is no graph, and the stream runs work again.
  void end_invalidated(CUstream stream) const {
    CUgraph graph = reinterpret_cast<CUgraph>(stream);  // no graph, but not null
    CHECK(driver.try_stream_end_capture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(graph == nullptr);
    CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  }
  [[nodiscard]] CUstreamCaptureStatus status(CUstream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    driver.stream_is_capturing(stream, &status);
    return status;
  }
  /// What follows on `second` depends on what `first` has done so far.
  void order(CUstream first, CUstream second) const {
    const CUevent event = make_event();
    driver.event_record(event, first);
    driver.stream_wait_event(second, event, 0U);
    driver.event_destroy(event);
  }
  /// Instantiates `graph`, and destroys it.
  [[nodiscard]] CUgraphExec make_executable(CUgraph graph) const {
    CUgraphExec exec = nullptr;
    driver.graph_instantiate(&exec, graph, 0ULL);
    driver.graph_destroy(graph);
    return exec;
  }
  [[nodiscard]] std::vector<CUgraphNode> nodes(CUgraph graph) const {
    std::size_t count = 0;
    driver.graph_get_nodes(graph, nullptr, &count);
    std::vector<CUgraphNode> all(count);
    if (count != 0) driver.graph_get_nodes(graph, all.data(), &count);
    return all;
  }
  [[nodiscard]] CUgraphNodeType type(CUgraphNode node) const {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
    driver.graph_node_get_type(node, &type);
    return type;
  }

  bool available = false;
};

}  // namespace berth::test
