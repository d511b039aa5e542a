// SPDX-License-Identifier: Apache-2.0
#include "stream/capture.hpp"

#include "berth/relaxed_capture_scope.hpp"

#include "base/format.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

bool query_in_scope(StreamRef stream) {
  const Driver& driver = stream.context().driver();
  if (!driver.has(DriverCall::stream_is_capturing)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.try_stream_is_capturing(stream.native(), &status);
  const bool is_implicit = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!is_implicit && result != CUDA_SUCCESS) driver.raise(DriverCall::stream_is_capturing, result);
  return is_implicit || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

bool is_capturing(StreamRef stream) {
  const ContextScope scope(stream.context());
  return is_capturing_in_scope(stream);
}

bool is_capturing_in_scope(StreamRef stream) {
  const bool is_captured = query_in_scope(stream);
  stream.context().seen_captures().update(stream.native(), is_captured);
  return is_captured;
}

CaptureState capture_of(StreamRef stream) {
  const Driver& driver = stream.context().driver();
  const ContextScope scope(stream.context());
  if (!driver.has(DriverCall::stream_get_capture_info)) return {is_capturing_in_scope(stream)};
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUresult result = driver.try_stream_get_capture_info(stream.native(), &status, &id, &graph,
                                                             nullptr, nullptr, nullptr);
  const bool is_implicit = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!is_implicit && result != CUDA_SUCCESS)
    driver.raise(DriverCall::stream_get_capture_info, result);
  const bool is_capturing = is_implicit || status != CU_STREAM_CAPTURE_STATUS_NONE;
  stream.context().seen_captures().update(stream.native(), is_capturing);
  if (is_implicit || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return {is_capturing};
  return {true, graph, id};
}

bool may_be_capturing(DeviceContext& context) {
  return context.seen_captures().any([&](CUstream stream) {
    if (context.stream_number(stream) == 0) return true;
    const ContextScope scope(context);
    return query_in_scope(StreamRef(context, stream));
  });
}

bool in_one_capture(StreamRef stream, StreamRef other) {
  const auto id_of = [](StreamRef of) {
    const ContextScope scope(of.context());
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    of.context().driver().stream_get_capture_info(of.native(), &status, &id, nullptr, nullptr,
                                                  nullptr, nullptr);
    return id;
  };
  if (!stream.context().driver().has(DriverCall::stream_get_capture_info)) return true;
  return id_of(stream) == id_of(other);
}

void refuse_captured(StreamRef stream, const char* action) {
  if (stream.is_legacy_default()) {
    throw StreamCaptured(
        format_text("the legacy default stream of {} cannot be {} while a stream that waits for it "
                    "is captured; "
                    "accepted: another stream, or after the end of the capture",
                    stream.device().to_string(), action));
  }
  throw StreamCaptured(format_text(
      "a stream of {} cannot be {} while it is captured; accepted: after the end of the "
      "capture",
      stream.device().to_string(), action));
}

RelaxedCaptureScope::RelaxedCaptureScope(DeviceContext& context) : context_(context) {
  static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == 2);
  swap();
}

RelaxedCaptureScope::~RelaxedCaptureScope() {
  swap();
}

void RelaxedCaptureScope::swap() noexcept {
  auto mode = static_cast<CUstreamCaptureMode>(mode_);
  context_.driver().try_thread_exchange_capture_mode(&mode);
  mode_ = mode;
}

}  // namespace berth
