// SPDX-License-Identifier: Apache-2.0
// Memory of the program that is registered.
#include "berth/host_registration.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <sys/mman.h>
#include <utility>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"

namespace host_registration_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Pages of the test's own.
class OwnPages {
 public:
  explicit OwnPages(std::size_t bytes, int protection = PROT_READ | PROT_WRITE)
      : bytes_(bytes), data_(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~OwnPages() { munmap(data_, bytes_); }
  OwnPages(const OwnPages&) = delete;
  OwnPages& operator=(const OwnPages&) = delete;
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(data_) + offset;
  }

 private:
  const std::size_t bytes_;
  void* const data_;
};

}  // namespace

TEST_CASE("registered memory is known as pinned, from its first byte to its last") {
  PinnedTest test;
  const OwnPages pages(2_MiB);
  {
    const HostRegistration own = test.memory.register_memory(pages.at(), 1_MiB);
    CHECK(own.data() == pages.at());
    CHECK(own.bytes() == 1_MiB);
    CHECK(test.registrations() == 1);
    CHECK(test.memory.bytes_registered() == 1_MiB);
    for (const std::size_t offset : {std::size_t{0}, 4097UL, 1_MiB - 1}) {
      CHECK(test.memory.find_block(pages.at(offset)) == pages.at());
      const auto found = test.memory.find(pages.at(offset));
      REQUIRE(found.has_value());
      CHECK(found->bytes == 1_MiB);
      CHECK(found->kind == PinnedKind::registered);
    }
    CHECK(test.memory.find_block(pages.at(1_MiB)) == nullptr);
    CHECK(same_levels(test.counters(), MemoryCounters{}));
  }
  CHECK(test.registrations() == 0);
  CHECK(test.memory.bytes_registered() == 0);
  CHECK(test.memory.find_block(pages.at()) == nullptr);
}

TEST_CASE("a registration moves, and ends once") {
  PinnedTest test;
  const OwnPages pages(1_MiB);
  HostRegistration a = test.memory.register_memory(pages.at(), 64_KiB);
  HostRegistration b = std::move(a);
  CHECK_FALSE(a);  // NOLINT(bugprone-use-after-move)
  CHECK(b);
  HostRegistration c = test.memory.register_memory(pages.at(128_KiB), 64_KiB);
  c = std::move(b);
  CHECK(test.registrations() == 1);
  CHECK(c.data() == pages.at());
  c.reset();
  c.reset();
  CHECK(test.registrations() == 0);
  void* const raw = test.memory.register_memory(pages.at(), 64_KiB).release();
  CHECK(test.registrations() == 1);
  test.memory.unregister(raw);
  test.memory.unregister(nullptr);
  CHECK(test.registrations() == 0);
  CHECK_FALSE(test.memory.register_memory(nullptr, 0));
}

TEST_CASE("the end of a registration waits for the streams that were recorded, and for no others") {
  for (const bool once : {false, true}) {
    CAPTURE(once);
    PinnedTest test(manual_progress());
    const OwnPages pages(1_MiB);
    const Stream user = test.stream();
    HostRegistration own = test.memory.register_memory(pages.at(), 1_MiB);
    test.log.submit(user, "copy");
    if (once) {
      own.record_use(user);
    } else {
      test.memory.record_stream(pages.at(70'000), user);
    }
    test.log.submit(user, "later");
    std::vector<std::string> before_unregistering;
    const std::uint64_t waits = driver_calls(*test.runtime, "cuEventSynchronize") +
                                driver_calls(*test.runtime, "cuStreamSynchronize");
    own.reset();
    CHECK(test.log.is_done("copy"));
    CHECK(driver_calls(*test.runtime, "cuEventSynchronize") +
              driver_calls(*test.runtime, "cuStreamSynchronize") ==
          waits + 1);
  }
  PinnedTest test(manual_progress());
  const OwnPages pages(1_MiB);
  const std::uint64_t calls = driver_calls(*test.runtime, "cuEventSynchronize");
  test.memory.register_memory(pages.at(), 1_MiB).reset();
  CHECK(driver_calls(*test.runtime, "cuEventSynchronize") == calls);
  CHECK(driver_calls(*test.runtime, "cuStreamSynchronize") == 0);
}

TEST_CASE("a stream that used registered memory may go away before the registration") {
  PinnedTest test(manual_progress());
  const OwnPages pages(1_MiB);
  HostRegistration own = test.memory.register_memory(pages.at(), 1_MiB);
  {
    const Stream doomed = test.stream();
    test.log.submit(doomed, "first");
    own.record_stream(doomed);
  }
  {
    const Stream next = test.stream();  // perhaps under the same handle
    test.log.submit(next, "second");
    own.record_stream(next);
  }
  own.reset();
  CHECK(test.log.is_done("first"));
  CHECK(test.log.is_done("second"));
  CHECK(test.registrations() == 0);
}

TEST_CASE("a reused stream handle is a new stream, and both streams are waited for") {
  PinnedTest test(manual_progress());
  const OwnPages pages(1_MiB);
  const Stream stream = test.stream();
  const auto waits = [&](const char* function) { return driver_calls(*test.runtime, function); };
  HostRegistration own = test.memory.register_memory(pages.at(), 1_MiB);
  test.log.submit(stream, "first");
  own.record_stream(stream);
  test.memory.retire_stream(stream);  // as if it went away, and its handle came back
  test.log.submit(stream, "second");
  own.record_stream(stream);
  own.reset();
  CHECK(waits("cuEventSynchronize") == 2);
  CHECK(test.log.is_done("second"));
}

TEST_CASE("ranges that cannot be registered are refused with the reason") {
  PinnedTest test;
  const OwnPages pages(1_MiB);
  const auto refusal = [&](void* data, std::size_t bytes) {
    message_of(test.memory.try_register_memory(data, bytes), Errc::invalid_argument);
    return message_of<InvalidArgument>([&] { return test.memory.register_memory(data, bytes); });
  };
  CHECK(contains(refusal(nullptr, 1), "null"));
  CHECK(contains(refusal(pages.at(), std::numeric_limits<std::size_t>::max()), "wraps around"));
  CHECK(contains(refusal(pages.at(), 512_GiB), "512"));
  CHECK(contains(refusal(pages.at(), 64_GiB), "memory of this process"));

  const HostRegistration own = test.memory.register_memory(pages.at(64_KiB), 64_KiB);
  for (const auto& range :
       {std::pair{64_KiB, 64_KiB}, std::pair{60_KiB, 8_KiB}, std::pair{124_KiB, 8_KiB},
        std::pair{72_KiB, 4_KiB}, std::pair{std::size_t{0}, 1_MiB}}) {
    CAPTURE(range.first);
    CHECK(contains(refusal(pages.at(range.first), range.second), "overlaps"));
  }
  const Allocation block = test.memory.allocate(100'000);
  auto* const inside = static_cast<std::byte*>(block.data()) + 4096;
  CHECK(contains(refusal(inside, 4096), "pinned memory of this allocator"));
  void* foreign = nullptr;
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuMemHostAlloc(&foreign, 4096, 0) == CUDA_SUCCESS);
  }
  CHECK(contains(refusal(foreign, 4096), "pinned already"));
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuMemFreeHost(foreign) == CUDA_SUCCESS);
  }
  const Stream stream = test.stream();
  const Allocation device = test.runtime->memory(Device::cuda(0)).allocate(1_MiB, stream);
  CHECK(contains(refusal(device.data(), 4096), "memory of this process"));

  CHECK(test.memory.bytes_registered() == 64_KiB);
  CHECK(test.registrations() == 2);  // that one, and the segment
  const HostRegistration beside = test.memory.register_memory(pages.at(128_KiB), 64_KiB);
  CHECK(test.memory.bytes_registered() == 128_KiB);
  check_whole(test.memory);
}

TEST_CASE("only the start of a registration ends it, and a block is not taken for one") {
  PinnedTest test;
  const OwnPages pages(1_MiB);
  const HostRegistration own = test.memory.register_memory(pages.at(), 64_KiB);
  const Allocation block = test.memory.allocate(1000);
  const auto refusal = [&](void* data) {
    return message_of<InvalidArgument>([&] { test.memory.unregister(data); });
  };
  CHECK(contains(refusal(pages.at(1)), "no registration starts"));
  CHECK(contains(refusal(pages.at(1)), "; accepted: the address that was registered"));
  CHECK(contains(refusal(block.data()), "no registration starts"));
  CHECK(contains(message_of<InvalidArgument>([&] { test.memory.deallocate(pages.at()); }),
                 "unregister()"));
  CHECK(contains(message_of<InvalidArgument>([&] { test.memory.deallocate(pages.at(5)); }),
                 "registered memory"));
  CHECK(test.registrations() == 2);
}

TEST_CASE("the driver's code determines the error of a registration, and a retry succeeds") {
  struct Case {
    const char* code;
    Errc expected;
  };
  const OwnPages pages(1_MiB);
  for (const Case& c :
       {Case{"out_of_memory", Errc::out_of_memory}, Case{"not_permitted", Errc::not_supported},
        Case{"not_supported", Errc::not_supported}, Case{"invalid_value", Errc::invalid_argument},
        Case{"unknown", Errc::driver}}) {
    CAPTURE(c.code);
    sim::Config config;
    config.faults = sim::FaultPlan::parse(std::string("cuMemHostRegister@1=") + c.code);
    PinnedTest test(config);
    message_of(test.memory.try_register_memory(pages.at(), 64_KiB), c.expected);
    CHECK(test.memory.bytes_registered() == 0);
    CHECK(test.memory.find_block(pages.at()) == nullptr);
    const HostRegistration own = test.memory.register_memory(pages.at(), 64_KiB);
    CHECK(test.registrations() == 1);
  }
}

TEST_CASE("a registration that the driver fails to end stays, and a retry ends it") {
  sim::Config config;
  config.faults = sim::FaultPlan::parse("cuMemHostUnregister@1=unknown");
  PinnedTest test(config);
  const OwnPages pages(1_MiB);
  void* const raw = test.memory.register_memory(pages.at(), 64_KiB).release();
  CHECK(contains(message_of<DriverError>([&] { test.memory.unregister(raw); }),
                 "cuMemHostUnregister"));
  CHECK(test.memory.find_block(raw) == raw);
  CHECK(test.memory.bytes_registered() == 64_KiB);
  test.memory.unregister(raw);
  CHECK(test.registrations() == 0);
}

TEST_CASE("the destructor of a Runtime reports registered memory and unpins it") {
  PinnedTest test;
  const OwnPages pages(1_MiB);
  static_cast<void>(test.memory.register_memory(pages.at(), 64_KiB).release());
  test.runtime.reset();
  CHECK(test.registrations() == 0);
  CHECK(test.reports.mention("still registered"));
}

TEST_CASE("registered memory does not count towards the limit") {
  PinnedTest test({}, {.bytes_reserved_max = 16_MiB});
  const OwnPages pages(32_MiB);
  const HostRegistration own = test.memory.register_memory(pages.at(), 32_MiB);
  CHECK(test.memory.allocate(1000));
  CHECK(test.reserved() == 16_MiB);
}

TEST_CASE("a copy from registered memory records it, so that its end waits") {
  PinnedTest test(manual_progress());
  const OwnPages pages(1_MiB);
  const Stream stream = test.stream();
  const Allocation target = test.runtime->memory(Device::cuda(0)).allocate(1_MiB, stream);
  pages.at()[5] = std::byte{42};
  {
    const HostRegistration own = test.memory.register_memory(pages.at(), 1_MiB);
    test.runtime->copier().copy_async(target.data(), pages.at(), 1_MiB, stream);
  }
  CHECK(test.simulator.peek(address_of(target.data()), 6)[5] == 42);
  CHECK(test.runtime->statistics().copies.copies_direct == 1);
}

}  // namespace host_registration_test
