// SPDX-License-Identifier: Apache-2.0
#include "berth/stream.hpp"

#include <utility>

#include <fmt/format.h>

#include "device/device_context.hpp"
#include "stream/poll.hpp"

namespace berth {
namespace {

CUstream create_stream(DeviceContext& context, StreamOptions options) {
  if (options.priority > 0) {
    throw InvalidArgument(
        fmt::format("stream priority {} is not accepted; accepted: 0 and below, lower runs first",
                    options.priority));
  }
  const ContextScope scope(context);
  CUstream stream = nullptr;
  // The driver clamps priorities below its range by itself.
  context.driver().stream_create_with_priority(
      &stream,
      unsigned{options.blocks_with_legacy_default ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING},
      options.priority);
  return stream;
}

}  // namespace

Device StreamRef::device() const noexcept {
  return context_->device();
}

void StreamRef::wait(EventRef event) const {
  const ContextScope scope(*context_);
  context_->driver().stream_wait_event(native_, event.native(), 0u);
}

bool StreamRef::is_done() const {
  const ContextScope scope(*context_);
  return is_complete(context_->driver(), DriverCall::stream_query,
                     context_->driver().try_stream_query(native_));
}

void StreamRef::sync() const {
  const ContextScope scope(*context_);
  context_->driver().stream_synchronize(native_);
}

Stream::Stream(DeviceContext& context, StreamOptions options)
    : ref_(context, create_stream(context, options)) {}

Stream::~Stream() {
  if (CUstream stream = release()) {
    ref_.context().retire_stream(stream);
    const ContextScope scope(ref_.context(), std::nothrow);
    ref_.context().driver().stream_destroy_or_report(stream);
  }
}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    Stream old = std::move(*this);
    ref_ = StreamRef(other.ref_.context(), other.release());
  }
  return *this;
}

CUstream_st* Stream::release() noexcept {
  CUstream stream = ref_.native();
  ref_ = StreamRef(ref_.context(), nullptr);
  return stream;
}

}  // namespace berth
