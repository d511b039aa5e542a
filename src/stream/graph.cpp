// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuStreamBeginCapture, cuStreamEndCapture, "Graph Management".
#include "berth/graph.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "base/thread_number.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

void require_graphs(const Driver& driver) {
  for (const DriverCall call :
       {DriverCall::stream_begin_capture, DriverCall::stream_end_capture, DriverCall::graph_destroy,
        DriverCall::graph_instantiate, DriverCall::graph_launch, DriverCall::graph_exec_destroy}) {
    if (driver.usable() && !driver.has(call))
      throw NotSupported(format_text("the driver {} has no CUDA graphs: it lacks {}", driver.name(),
                                     kDriverCallNames[std::size_t(call)]));
  }
}

/// After such a result of cuStreamEndCapture, the stream is no longer in this capture.
bool is_over(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED || result == CUDA_ERROR_ILLEGAL_STATE;
}

const char* cause_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      return "a call that is not permitted in a capture has made it invalid";
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      return "a stream that was captured with it has not been waited for";
    default:
      return "the driver refuses its end";
  }
}

DriverError failed_end(StreamRef stream, CUresult result) {
  return {format_text("the capture of a stream of {} gives no graph: {}: {}: {}",
                      stream.device().to_string(), cause_of(result),
                      kDriverCallNames[std::size_t(DriverCall::stream_end_capture)],
                      stream.context().driver().describe(result)),
          static_cast<int>(result)};
}

}  // namespace

Graph::~Graph() {
  if (native_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().graph_exec_destroy_or_report(native_);
  context_->graphs_live().fetch_sub(1, std::memory_order_relaxed);
}

Graph::Graph(Graph&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)),
      native_(std::exchange(other.native_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this != &other) {
    const Graph old = std::move(*this);
    context_ = std::exchange(other.context_, nullptr);
    native_ = std::exchange(other.native_, nullptr);
  }
  return *this;
}

Device Graph::device() const {
  if (native_ == nullptr) detail::refuse_empty("graph");
  return context_->device();
}

void Graph::replay(StreamRef stream) const {
  if (native_ == nullptr) detail::refuse_empty("graph");
  if (&stream.context() != context_) {
    throw InvalidArgument(
        format_text("a graph of {} cannot be replayed on a stream of {}; accepted: streams of the "
                    "graph's own device",
                    context_->device().to_string(), stream.context().name_beside(*context_)));
  }
  const ContextScope scope(*context_);
  if (is_capturing_in_scope(stream)) refuse_captured(stream, "given a graph to replay");
  context_->driver().graph_launch(native_, stream.native());
}

GraphCapture::GraphCapture(StreamRef stream) : stream_(stream), thread_(this_thread_number()) {
  if (stream.is_legacy_default() || stream.is_per_thread_default()) {
    throw InvalidArgument(format_text(
        "the {} default stream of {} cannot be captured; accepted: a stream of a pool, or of "
        "Runtime::create_stream()",
        stream.is_legacy_default() ? "legacy" : "per-thread", stream.device().to_string()));
  }
  DeviceContext& context = stream.context();
  require_graphs(context.driver());
  const ContextScope scope(context);
  if (is_capturing_in_scope(stream)) refuse_captured(stream, "captured");
  context.driver().stream_begin_capture(stream.native(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  context.seen_captures().update(stream.native(), true);
}

GraphCapture::~GraphCapture() {
  if (!is_open_) return;
  DeviceContext& context = stream_.context();
  const ContextScope scope(context, std::nothrow);
  CUgraph dropped = nullptr;
  const CUresult result = context.driver().try_stream_end_capture(stream_.native(), &dropped);
  if (dropped != nullptr) context.driver().graph_destroy_or_report(dropped);
  if (is_over(result)) {
    context.seen_captures().update(stream_.native(), false);
    return;
  }
  try {
    context.driver().report(Severity::error, "", failed_end(stream_, result));
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): no memory left to say so
  }
}

Graph GraphCapture::end() {
  if (!is_open_)
    throw InvalidArgument("a capture that has ended cannot be ended again; accepted: a new one");
  if (thread_ != this_thread_number()) {
    throw InvalidArgument(
        format_text("a capture of a stream of {} cannot be ended by this thread; accepted: the "
                    "thread that began it",
                    stream_.device().to_string()));
  }
  DeviceContext& context = stream_.context();
  const Driver& driver = context.driver();
  const ContextScope scope(context);
  CUgraph graph = nullptr;
  const CUresult ended = driver.try_stream_end_capture(stream_.native(), &graph);
  if (is_over(ended)) {
    is_open_ = false;
    context.seen_captures().update(stream_.native(), false);
  }
  if (ended != CUDA_SUCCESS) throw failed_end(stream_, ended);
  CUgraphExec executable = nullptr;
  const CUresult made = driver.try_graph_instantiate(&executable, graph, 0ULL);
  driver.graph_destroy_or_report(graph);
  if (made != CUDA_SUCCESS) driver.raise(DriverCall::graph_instantiate, made);
  context.graphs_live().fetch_add(1, std::memory_order_relaxed);
  return {context, executable};
}

}  // namespace berth
