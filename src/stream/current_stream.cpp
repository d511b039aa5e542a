// SPDX-License-Identifier: Apache-2.0
// A thread's guards form a list from the innermost outwards, through the guards themselves: nothing
// to allocate, and nothing that a thread destroys before a static object asks at exit.
#include "berth/current_stream.hpp"

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

thread_local StreamGuard* innermost = nullptr;

}  // namespace

StreamRef current_stream(DeviceContext& context) {
  for (const StreamGuard* guard = innermost; guard != nullptr; guard = guard->outer_)
    if (&guard->stream_.context() == &context) return guard->stream_;
  return StreamRef(context, nullptr);
}

StreamGuard::StreamGuard(StreamRef stream) : stream_(stream), outer_(innermost) {
  DeviceContext& context = stream.context();
  context.driver().ctx_push_current(context.primary());
  innermost = this;
}

StreamGuard::~StreamGuard() {
  BERTH_CHECK(innermost == this);
  innermost = outer_;
  CUcontext popped = nullptr;
  stream_.context().driver().ctx_pop_current_or_report(&popped);
}

}  // namespace berth
