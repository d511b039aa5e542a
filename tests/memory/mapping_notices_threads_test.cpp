// SPDX-License-Identifier: Apache-2.0
// Calls inside on_map and on_unmap, while another thread is in the middle of a call that needs the
// same stream or lock.
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_allocator.hpp"

#include "stream/enable_peer_access.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"
#include "support/meanwhile.hpp"
#include "support/tapped_device.hpp"

namespace mapping_notices_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

struct WatchedDevice : TappedDevice {
  WatchedDevice() : TappedDevice(config()) {
    DeviceAllocatorOptions options;
    options.on_map = [this](const MappedRange&) {
      if (const auto action = std::exchange(in_callback, nullptr)) action();
    };
    options.on_unmap = options.on_map;
    memory.emplace(context, events, std::move(options));
    pool.emplace(memory->create_pool({.name = "other"}));
  }
  ~WatchedDevice() {
    check_whole(*memory);
    pool.reset();
    memory.reset();
  }

  /// Called once, in the next callback.
  std::function<void()> in_callback;
  Stream own = stream();
  std::optional<DeviceAllocator> memory;
  std::optional<MemoryPool> pool;

 private:
  static sim::Config config() {
    sim::Config config;
    config.devices = 2;
    config.progress = sim::Progress::manual;
    return config;
  }
};

/// Another thread grows the device's pool and destroys `ending` in on_map, just before this
/// thread's next `call`, which names that stream.
class EndInCallback {
 public:
  EndInCallback(WatchedDevice& test, DriverCall call, std::optional<Stream>& ending)
      : destroys_([&test, &ending] {
          test.in_callback = [&ending] { ending.reset(); };
          test.memory->allocate(5_MiB, test.own).reset();
        }) {
    test.tap.before(call, [this] { destroys_.start(); });
    test.tap.before(DriverCall::stream_destroy, [this] { is_destroyed_ = true; });
    test.tap.after(call, [this] { was_destroyed_ = is_destroyed_; });
  }
  /// Whether the stream was destroyed before the call returned.
  [[nodiscard]] bool overtakes_the_call() {
    destroys_.join();
    CHECK(is_destroyed_);
    return was_destroyed_;
  }

 private:
  std::atomic<bool> is_destroyed_ = false;
  bool was_destroyed_ = true;  // by a call that is not made
  Meanwhile destroys_;
};

}  // namespace

TEST_CASE_FIXTURE(WatchedDevice,
                  "a stream that ends in on_map exists until another pool's query of it returns") {
  std::optional<Stream> ending = stream();
  pool->allocate(5_MiB, *ending).reset();
  EndInCallback end(*this, DriverCall::stream_query, ending);
  CHECK(pool->trim() == 6_MiB);
  CHECK_FALSE(end.overtakes_the_call());
  CHECK(reports.mention("cuda:0/other: a stream that still owns memory was destroyed"));
}

TEST_CASE_FIXTURE(WatchedDevice,
                  "a stream that ends in on_map exists until another pool has marked it") {
  std::optional<Stream> ending = stream();
  pool->allocate(5_MiB, *ending).reset();
  log.submit(*ending, "work");
  EndInCallback end(*this, DriverCall::event_record, ending);
  CHECK(pool->trim() == 6_MiB);
  CHECK_FALSE(end.overtakes_the_call());
}

TEST_CASE_FIXTURE(WatchedDevice,
                  "peer access is refused in on_map, also while another thread enables it") {
  DeviceContext& user = registry.context(Device::cuda(1));
  Meanwhile enables([&] { enable_peer_access(user, context); });
  std::string refusal;
  std::string pool_refusal;
  in_callback = [&] {
    enables.start();
    CHECK_FALSE(enables.was_done());  // it needs the lock of the pool that grows
    refusal = message_of<InvalidArgument>([&] { enable_peer_access(user, context); });
    pool_refusal = message_of<InvalidArgument>(
        [&] { static_cast<void>(memory->create_pool({.name = "late"})); });
  };
  memory->allocate(5_MiB, own).reset();
  enables.join();
  CHECK(contains(refusal, "enable_peer_access() is called by on_map or on_unmap"));
  CHECK(contains(pool_refusal, "create_pool() is called by on_map or on_unmap"));
  enable_peer_access(user, context);
}

TEST_CASE_FIXTURE(WatchedDevice,
                  "the properties of a contiguous block are known while memory is mapped") {
  MemoryPool contiguous = memory->create_pool({.name = "shared", .contiguous = true});
  const Allocation block = contiguous.allocate(5_MiB, own);
  Allocation large = contiguous.allocate(30_MiB, own);
  for (const DriverCall call : {DriverCall::mem_unmap, DriverCall::mem_map}) {
    Meanwhile asks([&] { CHECK(contiguous.properties(block.data()).has_value()); });
    tap.before(call, [&] { asks.start(); });
    if (call == DriverCall::mem_unmap) {
      large.reset();
      CHECK(contiguous.trim() == 30_MiB);
    } else {
      large = contiguous.allocate(40_MiB, own);
    }
    CHECK(asks.was_done());
  }
}

}  // namespace mapping_notices_threads_test
