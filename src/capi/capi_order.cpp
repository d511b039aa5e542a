// SPDX-License-Identifier: Apache-2.0
// Joins, forks and callbacks after work.
#include <vector>

#include "base/check.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_fork {
  berth_fork(Runtime& runtime, StreamRef parent, std::size_t count, int priority)
      : side(runtime.fork(parent, count, priority)) {}

  ForkJoin side;
};

berth_status berth_stream_join(berth_runtime* runtime, berth_stream waiter,
                               const berth_stream* streams, size_t count) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    if (waiter.context == nullptr) refuse_null("waiter");
    static_cast<void>(require_array(streams, count, "streams"));
    std::vector<StreamRef> joined;
    joined.reserve(count);
    for (std::size_t index = 0; index < count; ++index)
      joined.push_back(to_stream_at(streams[index], "streams", index));
    owner.join(to_stream(waiter), joined);
  });
}

berth_status berth_fork_begin(berth_runtime* runtime, berth_stream parent, size_t count,
                              int priority, berth_stream* streams, berth_fork** fork) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    if (parent.context == nullptr) refuse_null("parent");
    static_cast<void>(require_array(streams, count, "streams"));
    auto& out = require(fork, "fork");
    out = new berth_fork(owner, to_stream(parent), count, priority);
    BERTH_CHECK(out->side.size() == count);
    for (std::size_t index = 0; index < count; ++index)
      streams[index] = from_stream(out->side[index]);
  });
}

berth_status berth_fork_join(berth_fork* fork) {
  return guarded([&] { require(fork, "fork").side.join(); });
}

void berth_fork_end(berth_fork* fork) {
  delete fork;
}

berth_status berth_stream_when_done(berth_runtime* runtime, berth_stream stream,
                                    berth_completion_function function, void* user) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const StreamRef ref = to_stream(stream);
    if (function == nullptr) refuse_null("function");
    owner.completions().when_done(ref, to_callback(function, user));
  });
}

berth_status berth_completions_get_outstanding(berth_runtime* runtime, size_t* count) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    require(count, "count") = owner.completions().outstanding();
  });
}
