// SPDX-License-Identifier: Apache-2.0
// The stream guards of a thread form an intrusive list from the innermost outwards. It needs no
// allocation, and is still valid when static objects are destroyed at exit.
#include "berth/current_stream.hpp"

namespace berth {
namespace {

/// In the static TLS block, so that an access is one instruction and no call.
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
  innermost = outer_;  // device_ terminates the process if this is not the innermost guard
}

}  // namespace berth
