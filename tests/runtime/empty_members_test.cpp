// SPDX-License-Identifier: Apache-2.0
// Owners and leases as members of a class: empty at first, filled later, emptied again.
#include <string>
#include <unordered_set>
#include <utility>

#include <doctest/doctest.h>

#include "berth/file.hpp"
#include "berth/handle_pool.hpp"

#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace empty_members_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

struct Members {
  Stream stream;
  Event event;
  StreamLease stream_lease;
  EventLease event_lease;
  HandleLease<int> handle;
  Allocation memory;
  File file;
};

/// Every use of an empty one is refused, and says what is empty.
void check_empty(const Members& members) {
  CHECK_FALSE(bool(members.stream));
  CHECK_FALSE(bool(members.event));
  CHECK_FALSE(bool(members.stream_lease));
  CHECK_FALSE(bool(members.event_lease));
  CHECK_FALSE(bool(members.handle));
  CHECK_FALSE(bool(members.memory));
  CHECK_FALSE(bool(members.file));
  const auto refused = [](auto&& use, const char* what) {
    CHECK(contains(message_of<InvalidArgument>([&] { static_cast<void>(use()); }), what));
  };
  refused([&] { return members.stream.ref(); }, "stream");
  refused([&] { return members.event.ref(); }, "event");
  refused([&] { return members.stream_lease.ref(); }, "lease");
  refused([&] { return StreamRef(members.stream_lease); }, "lease");
  refused([&] { return members.event_lease->is_done(); }, "lease");
  refused([&] { return members.handle.get(); }, "lease");
  refused([&] { return members.file.size(); }, "file");
  refused([&] { return members.file.path(); }, "file");
  refused([&] { return members.file.sync(), 0; }, "file");
  CHECK(members.memory.stream() == std::nullopt);
  CHECK(members.memory.device() == Device::cpu());
}

HandlePoolOptions<int> numbers() {
  HandlePoolOptions<int> options;
  options.name = "numbers";
  options.create = [] { return 7; };
  options.bind = [](int&, StreamRef) {};
  return options;
}

}  // namespace

TEST_CASE("owners and leases can be empty members that are assigned later") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  HandlePool<int> handles(runtime, numbers());
  Members members;
  check_empty(members);

  members.stream = runtime.create_stream(kDevice);
  members.event = Event(members.stream.ref().context(), {});
  members.stream_lease = runtime.streams(kDevice).acquire();
  members.event_lease = runtime.record(members.stream);
  members.handle = handles.acquire(members.stream);
  members.memory = runtime.memory(kDevice).allocate(100, members.stream);
  members.file = File::open_to_write("/dev/null");
  CHECK(bool(members.stream));
  CHECK(bool(members.event));
  CHECK(bool(members.stream_lease));
  CHECK(bool(members.event_lease));
  CHECK(bool(members.handle));
  CHECK(members.handle.get() == 7);
  CHECK(bool(members.file));
  CHECK(members.memory.device() == kDevice);
  CHECK(members.memory.stream() == members.stream.ref());

  const Members taken = std::move(members);
  check_empty(members);
  CHECK(taken.memory.stream() == taken.stream.ref());
  CHECK(bool(taken.event_lease));
}

TEST_CASE("released leases and owners are empty") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  StreamLease lease = runtime.streams(kDevice).acquire();
  const StreamRef released = lease.release();
  CHECK_FALSE(bool(lease));
  CHECK(message_of<InvalidArgument>([&] { return lease.release(); }).size() > 0);
  runtime.streams(kDevice).give_back(released);
  Event event(released.context(), {});
  Event::adopt(EventRef(released.context(), event.release()));
  CHECK_FALSE(bool(event));
  CHECK(event.release() == nullptr);
}

TEST_CASE("streams and events can be keys: equal ones have equal hashes") {
  Simulation simulation;
  Runtime& runtime = *simulation.runtime;
  const StreamLease lease = runtime.streams(kDevice).acquire();
  const EventLease event = runtime.record(lease);
  std::unordered_set<StreamRef> streams{lease, runtime.default_stream(kDevice)};
  // Both handles of the legacy default stream are one stream.
  streams.insert(runtime.stream(kDevice, reinterpret_cast<CUstream_st*>(1)));
  CHECK(streams.size() == 2);
  CHECK(streams.contains(runtime.stream(kDevice, lease.ref().native())));
  const std::unordered_set<EventRef> events{event};
  CHECK(events.contains(event.ref()));
}

}  // namespace empty_members_test
