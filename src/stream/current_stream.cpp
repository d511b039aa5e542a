// SPDX-License-Identifier: Apache-2.0
// A thread's stream guards form a list from the innermost outwards, through the guards themselves:
// nothing to allocate, and nothing that a thread destroys before a static object asks at exit.
#include "berth/current_stream.hpp"

namespace berth {
namespace {

/// In the thread's static block, so that reaching it is one instruction and no call.
[[gnu::tls_model("initial-exec")]] constinit thread_local StreamGuard* innermost = nullptr;

}  // namespace

StreamRef current_stream(DeviceContext& context) {
  for (const StreamGuard* guard = innermost; guard != nullptr; guard = guard->outer_)
    if (&guard->stream_.context() == &context) return guard->stream_;
  return {context, nullptr};
}

StreamGuard::StreamGuard(StreamRef stream)
    : device_(stream.context()), stream_(stream), outer_(innermost) {
  innermost = this;
}

StreamGuard::~StreamGuard() {
  innermost = outer_;  // device_ stops the process where this was not the innermost
}

}  // namespace berth
