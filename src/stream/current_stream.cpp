// SPDX-License-Identifier: Apache-2.0
// Each thread keeps the streams that it made current, one for each device. Few devices: a flat
// list.
#include "berth/current_stream.hpp"

#include <algorithm>
#include <vector>

#include "device/device_context.hpp"

namespace berth {
namespace {

thread_local std::vector<StreamRef> current_streams;

auto find_current(const DeviceContext& context) {
  return std::find_if(current_streams.begin(), current_streams.end(),
                      [&](const StreamRef& stream) { return &stream.context() == &context; });
}

}  // namespace

StreamRef current_stream(DeviceContext& context) {
  const auto found = find_current(context);
  return found != current_streams.end() ? *found : StreamRef(context, nullptr);
}

StreamGuard::StreamGuard(StreamRef stream) : stream_(stream) {
  DeviceContext& context = stream.context();
  context.driver().ctx_push_current(context.primary());
  const auto found = find_current(context);
  if (found != current_streams.end()) {
    previous_ = *found;
    *found = stream;
  } else {
    current_streams.push_back(stream);
  }
}

StreamGuard::~StreamGuard() {
  const auto found = find_current(stream_.context());
  if (previous_) {
    *found = *previous_;
  } else {
    current_streams.erase(found);  // leaves no reference to a device behind
  }
  CUcontext popped = nullptr;
  stream_.context().driver().ctx_pop_current_or_report(&popped);
}

}  // namespace berth
