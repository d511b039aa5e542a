// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

EventOptions to_options(std::uint32_t flags, std::uint32_t known) {
  check_flags(flags, known, "flags");
  return {.timing = (flags & BERTH_EVENT_TIMING) != 0,
          .interprocess = (flags & BERTH_EVENT_INTERPROCESS) != 0};
}

DeviceContext& context_of(const Runtime& runtime, berth_device device) {
  return runtime.devices().context(to_device(device));
}

}  // namespace

berth_status berth_event_acquire(berth_runtime* runtime, berth_device device, std::uint32_t flags,
                                 berth_event* event) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(event, "event");
    const EventOptions options = to_options(flags, BERTH_EVENT_TIMING);
    out = from_event(owner.events(to_device(device)).acquire(options).release());
  });
}

berth_status berth_event_acquire_recorded(berth_runtime* runtime, berth_stream stream,
                                          berth_event* event) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const StreamRef ref = to_stream(stream);
    auto& out = require(event, "event");
    out = from_event(owner.record(ref).release());
  });
}

berth_status berth_event_release(berth_runtime* runtime, berth_event event) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const EventRef ref = to_event(event);
    owner.events(ref.device()).give_back(ref);
  });
}

berth_status berth_event_pool_get_counts(berth_runtime* runtime, berth_device device,
                                         std::size_t* events_created, std::size_t* leases_live) {
  return guarded([&] {
    const EventPool& pool = to_runtime(runtime).events(to_device(device));
    if (events_created != nullptr) *events_created = pool.events_created();
    if (leases_live != nullptr) *leases_live = pool.leases_live();
  });
}

berth_status berth_event_create(berth_runtime* runtime, berth_device device, std::uint32_t flags,
                                berth_event* event) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    auto& out = require(event, "event");
    Event made(context_of(owner, device),
               to_options(flags, BERTH_EVENT_TIMING | BERTH_EVENT_INTERPROCESS));
    out = from_event(made.ref());
    made.release();
  });
}

berth_status berth_event_destroy(berth_event event) {
  return guarded([&] { const Event destroyed = Event::adopt(to_event(event)); });
}

berth_status berth_event_from_native(berth_runtime* runtime, berth_device device,
                                     struct CUevent_st* native, berth_event* event) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    if (native == nullptr) refuse_null("native");
    auto& out = require(event, "event");
    out = from_event(EventRef(context_of(owner, device), native));
  });
}

berth_status berth_event_get_ipc_handle(berth_event event, berth_ipc_event_handle* handle) {
  return guarded([&] {
    const EventRef ref = to_event(event);
    auto& out = require(handle, "handle");
    static_assert(sizeof(berth_ipc_event_handle) == sizeof(IpcEventHandle));
    const IpcEventHandle given = ref.ipc_handle();
    std::memcpy(out.bytes, given.bytes.data(), sizeof out.bytes);
  });
}

berth_status berth_event_open(berth_runtime* runtime, berth_device device,
                              const berth_ipc_event_handle* handle, berth_event* event) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    const auto& from = require(handle, "handle");
    auto& out = require(event, "event");
    IpcEventHandle given;
    std::memcpy(given.bytes.data(), from.bytes, sizeof from.bytes);
    Event opened = Event::open(context_of(owner, device), given);
    out = from_event(opened.ref());
    opened.release();
  });
}

berth_status berth_event_get_device(berth_event event, berth_device* device) {
  return guarded([&] {
    const EventRef ref = to_event(event);
    auto& out = require(device, "device");
    out = from_device(ref.device());
  });
}

berth_status berth_event_record(berth_event event, berth_stream stream) {
  return guarded([&] {
    const EventRef ref = to_event(event);
    ref.record(to_stream(stream));
  });
}

berth_status berth_event_is_done(berth_event event, bool* is_done) {
  return guarded([&] {
    const EventRef ref = to_event(event);
    auto& out = require(is_done, "is_done");
    out = ref.is_done();
  });
}

berth_status berth_event_sync(berth_event event) {
  return guarded([&] { to_event(event).sync(); });
}

berth_status berth_event_elapsed_ms(berth_event start, berth_event end, float* elapsed_ms) {
  return guarded([&] {
    const EventRef first = to_event(start, "start");
    const EventRef last = to_event(end, "end");
    auto& out = require(elapsed_ms, "elapsed_ms");
    out = berth::elapsed_ms(first, last);
  });
}
