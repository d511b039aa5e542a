// SPDX-License-Identifier: Apache-2.0
#include "berth/stream.hpp"

#include <new>
#include <utility>

#include "base/check.hpp"
#include "base/format.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

CUstream create_stream(DeviceContext& context, StreamOptions options) {
  if (options.priority > 0) {
    throw InvalidArgument(
        format_text("stream priority {} is not accepted; accepted: 0 and below, lower runs first",
                    options.priority));
  }
  const ContextScope scope(context);
  CUstream stream = nullptr;
  // The driver clamps priorities below its range.
  context.driver().stream_create_with_priority(
      &stream,
      unsigned{options.blocks_with_legacy_default ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING},
      options.priority);
  try {
    context.own_stream(stream);
    BERTH_CHECK(context.stream_number(stream) > OwnedStreams::kLegacyDefault);
  } catch (...) {
    context.driver().stream_destroy_or_report(stream);
    throw;
  }
  return stream;
}

/// Within a ContextScope.
bool query(StreamRef stream) {
  const Driver& driver = stream.context().driver();
  return driver.succeeded(DriverCall::stream_query, driver.try_stream_query(stream.native()),
                          CUDA_ERROR_NOT_READY);
}

}  // namespace

Device StreamRef::device() const noexcept {
  return context_->device();
}

StreamRef StreamRef::per_thread_default(DeviceContext& context) noexcept {
  return {context, CU_STREAM_PER_THREAD};
}

bool StreamRef::is_per_thread_default() const noexcept {
  return native_ == CU_STREAM_PER_THREAD;
}

bool StreamRef::is_legacy_default() const noexcept {
  return native_ == nullptr || native_ == CU_STREAM_LEGACY;
}

void StreamRef::wait(EventRef event) const {
  const ContextScope scope(*context_);
  const bool draws_into_capture = event.context().captured_events().contains(event.native());
  if (is_legacy_default() && (draws_into_capture || is_capturing_in_scope(*this)))
    refuse_captured(*this, "made to wait");
  context_->driver().stream_wait_event(native_, event.native(), 0u);
}

bool StreamRef::is_done() const {
  const ContextScope scope(*context_);
  if (is_capturing_in_scope(*this)) refuse_captured(*this, "asked whether it is done");
  return query(*this);
}

void StreamRef::sync() const {
  const ContextScope scope(*context_);
  if (is_capturing_in_scope(*this)) refuse_captured(*this, "waited for");
  wait_in_caller_mode(*this);
}

bool StreamRef::is_capturing() const {
  return berth::is_capturing(*this);
}

bool is_done_in_scope(StreamRef stream) {
  return query(stream);
}

void sync_unchecked(StreamRef stream) {
  const ContextScope scope(stream.context());
  wait_for(stream);
}

Stream::Stream(DeviceContext& context, StreamOptions options)
    : ref_(context, create_stream(context, options)) {}

Stream Stream::adopt(StreamRef stream) {
  if (stream.is_legacy_default() || stream.is_per_thread_default()) {
    throw InvalidArgument(
        format_text("the {} default stream cannot be owned; accepted: a created stream",
                    stream.is_legacy_default() ? "legacy" : "per-thread"));
  }
  if (stream.context().pooled_streams().contains(stream.native())) {
    throw InvalidArgument(format_text(
        "stream {} belongs to the pool of {}, which leases it again; accepted: a stream "
        "of no pool",
        static_cast<const void*>(stream.native()), stream.device().to_string()));
  }
  try {
    stream.context().own_stream(stream.native());
  } catch (const std::bad_alloc&) {
    // Other code then treats it as a foreign stream, which is always safe.
  }
  return Stream(stream);
}

Stream::~Stream() {
  const CUstream stream = ref_.native();
  if (stream == nullptr) return;
  DeviceContext& context = ref_.context();
  context.retire_stream(stream);
  context.disown_stream(stream);
  const ContextScope scope(context, std::nothrow);
  context.driver().stream_destroy_or_report(stream);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    const Stream old = std::move(*this);
    ref_ = other.take();
  }
  return *this;
}

CUstream_st* Stream::release() noexcept {
  const StreamRef released = take();
  if (released.native() != nullptr) released.context().disown_stream(released.native());
  return released.native();
}

}  // namespace berth
