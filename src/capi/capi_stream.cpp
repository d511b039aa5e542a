// SPDX-License-Identifier: Apache-2.0

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "device/device_context.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_stream_guard {
  StreamGuard guard;
};

struct berth_relaxed_capture_scope {
  RelaxedCaptureScope scope;
};

berth_status berth_stream_acquire(berth_runtime* runtime, berth_device device, int priority,
                                  berth_stream* stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(stream, "stream");
    out = from_stream(owner.streams(to_device(device)).acquire(priority).release());
  });
}

berth_status berth_stream_release(berth_runtime* runtime, berth_stream stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const StreamRef ref = to_stream(stream);
    owner.streams(ref.device()).give_back(ref);
  });
}

berth_status berth_stream_pool_get_counts(berth_runtime* runtime, berth_device device,
                                          std::size_t* streams_created, std::size_t* leases_live) {
  return guarded([&] {
    const StreamPool& pool = to_runtime(runtime).streams(to_device(device));
    if (streams_created != nullptr) *streams_created = pool.streams_created();
    if (leases_live != nullptr) *leases_live = pool.leases_live();
  });
}

berth_status berth_stream_create(berth_runtime* runtime, berth_device device, int priority,
                                 std::uint32_t flags, berth_stream* stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(stream, "stream");
    check_flags(flags, BERTH_STREAM_BLOCKS_WITH_LEGACY_DEFAULT, "flags");
    Stream made = owner.create_stream(
        to_device(device),
        {.priority = priority,
         .blocks_with_legacy_default = (flags & BERTH_STREAM_BLOCKS_WITH_LEGACY_DEFAULT) != 0});
    const StreamRef ref = made.ref();
    out = from_stream(ref);
    made.release();
    ref.context().own_stream(ref.native());  // berth_stream_destroy() reports its end
  });
}

berth_status berth_stream_destroy(berth_stream stream) {
  return guarded([&] { const Stream destroyed = Stream::adopt(to_stream(stream)); });
}

berth_status berth_stream_from_native(berth_runtime* runtime, berth_device device,
                                      struct CUstream_st* native, berth_stream* stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(stream, "stream");
    out = from_stream(owner.stream(to_device(device), native));
  });
}

berth_status berth_stream_get_per_thread_default(berth_runtime* runtime, berth_device device,
                                                 berth_stream* stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(stream, "stream");
    out = from_stream(owner.per_thread_default_stream(to_device(device)));
  });
}

berth_status berth_stream_get_device(berth_stream stream, berth_device* device) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    auto& out = require(device, "device");
    out = from_device(ref.device());
  });
}

berth_status berth_stream_is_capturing(berth_stream stream, bool* is_capturing) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    auto& out = require(is_capturing, "is_capturing");
    out = ref.is_capturing();
  });
}

berth_status berth_stream_is_done(berth_stream stream, bool* is_done) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    auto& out = require(is_done, "is_done");
    out = ref.is_done();
  });
}

berth_status berth_stream_sync(berth_stream stream) {
  return guarded([&] { to_stream(stream).sync(); });
}

berth_status berth_stream_wait(berth_stream stream, berth_event event) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    ref.wait(to_event(event));
  });
}

berth_status berth_stream_get_current(berth_runtime* runtime, berth_device device,
                                      berth_stream* stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(stream, "stream");
    out = from_stream(owner.current_stream(to_device(device)));
  });
}

berth_status berth_stream_guard_enter(berth_stream stream, berth_stream_guard** guard) {
  return guarded([&] {
    const StreamRef ref = to_stream(stream);
    auto& out = require(guard, "guard");
    out = new berth_stream_guard{StreamGuard(ref)};
  });
}

void berth_stream_guard_leave(berth_stream_guard* guard) {
  delete guard;
}

berth_status berth_relaxed_capture_scope_enter(berth_stream any,
                                               berth_relaxed_capture_scope** scope) {
  return guarded([&] {
    const StreamRef ref = to_stream(any);
    auto& out = require(scope, "scope");
    out = new berth_relaxed_capture_scope{RelaxedCaptureScope(ref.context())};
  });
}

void berth_relaxed_capture_scope_leave(berth_relaxed_capture_scope* scope) {
  delete scope;
}
